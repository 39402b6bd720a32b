"""`raftlog top`: pure parts turn the pages of metrics of all nodes into an overview, and the overview into a frame."""
