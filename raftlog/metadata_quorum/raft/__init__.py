"""The Raft engine: PySyncObj's core behind a guard (`guard`), with our own journal, snapshots and transport.

`engine` composes them. `rejoin` handles voters that start without a journal, `scrub` checks files at run time.
"""
