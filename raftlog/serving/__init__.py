"""Shared parts of a node's HTTP listeners: limits of connections, requests, bodies and responses."""
