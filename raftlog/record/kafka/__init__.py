"""Kafka's record batch (magic 2) from and to raftlog's batch. No IO.

`convert` is the entry. Small batches are converted record by record (`loop`), large ones by column (`decode`,
`encode`) with numpy, which is loaded at the first large batch. Both give the same bytes.

Source: Kafka's documentation, "Record batch" and "Record"; KIP-98, KIP-101, KIP-82.
"""
