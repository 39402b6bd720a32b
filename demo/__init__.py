"""`make demo`: the main job, end to end, on real data, while nodes are killed."""
