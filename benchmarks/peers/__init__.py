"""raftlog beside other logs on the same machine in one run: `make bench-peers`."""
