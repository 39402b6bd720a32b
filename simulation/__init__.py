"""Deterministic simulation: real protocol code on a simulated clock and network, with crashes; one seed, one history."""
