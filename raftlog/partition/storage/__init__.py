"""Segments on disk: append, read, recovery, retention, checkpoints."""
