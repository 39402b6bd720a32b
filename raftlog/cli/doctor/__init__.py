"""`raftlog doctor`: pure checks turn facts about a cluster, a node's files and a machine into findings."""
