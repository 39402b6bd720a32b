"""A partition's log on disk.

`log.PartitionLog` is the entry: `log_files` opens, syncs and checkpoints, `log_truncation` truncates, `log_segments`
rolls, deletes and replaces segments (one class each, by inheritance in this order). `segment`, `index` and `epochs` are
its files; `recovery` opens them after a crash; `verified_reads` serves consumers; `fsck` and `damage_truncation` are
for operators.
"""
