"""The `raftlog` command line."""
