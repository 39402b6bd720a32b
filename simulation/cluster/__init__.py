"""Whole nodes in simulation: real brokers, controllers and clients on a simulated clock, network and disk."""

from simulation.cluster.simulate import simulate

__all__ = ["simulate"]
