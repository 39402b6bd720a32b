"""Kafka's protocol: its requests, served by the same replicas and coordinators as HTTP."""
