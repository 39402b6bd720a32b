"""Kafka's messages, one module for each API. Made by scripts/generate_kafka_messages.py."""
