"""Deterministic simulation: real protocol code on a simulated clock and network, with crashes; a seed is a history."""
