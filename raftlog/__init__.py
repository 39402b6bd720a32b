"""raftlog: a Raft-based replicated log without ZooKeeper."""
