"""The Raft engine: PySyncObj's core, guarded, with our own journal, snapshots and transport."""
