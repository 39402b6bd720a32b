"""The client's decisions, without IO: accumulator, sequences, partitioner, routing, backoff."""
