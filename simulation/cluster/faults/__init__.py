"""The faults, by name. Importing a module adds its faults."""

from simulation.cluster.faults import administration, disks, machines, network
from simulation.cluster.faults.hands import COORDINATOR_FAULTS, FAULTS, LATER_FAULTS, Hands

__all__ = ["COORDINATOR_FAULTS", "FAULTS", "LATER_FAULTS", "Hands", "administration", "disks", "machines", "network"]
