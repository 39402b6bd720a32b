"""Where the time of one record goes: the tracer of nodes and client, the merging of its stamps, and the picture."""
