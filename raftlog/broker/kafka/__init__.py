"""Kafka's requests on the replicas that serve HTTP. No listener of a node serves them yet."""
