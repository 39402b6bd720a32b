"""Partition replicas: a log and a role, and the loops that keep followers up."""
