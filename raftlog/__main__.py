"""`python -m raftlog` is the `raftlog` command."""

from raftlog.entry import main

main()
