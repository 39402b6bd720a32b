"""The metadata quorum: what replaces ZooKeeper. Records, image, controller, and Raft under one seam."""
