"""The broker: HTTP listeners, request handlers, metadata, lifecycle, and the composition of them all."""
