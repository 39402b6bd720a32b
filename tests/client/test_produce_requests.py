"""Encoding of batches for brokers of any version."""

from __future__ import annotations

import pytest

from raftlog.client.core.pending_batch import PendingBatch, ProducerIdentity
from raftlog.client.produce_requests import ProduceRequests
from raftlog.record import NewRecord, RecordColumns, parse_header
from raftlog.wire.metadata import SHORT_BATCHES


@pytest.mark.parametrize(("level", "is_short"), [(1, False), (SHORT_BATCHES - 1, False), (SHORT_BATCHES, True)])
def test_a_record_alone_is_short_once_all_nodes_read_it(level: int, is_short: bool):
    requests = ProduceRequests(acks="all", compression=None, transactional_id="")
    records = RecordColumns()
    records.append(NewRecord(b"v", timestamp=1))
    batch = PendingBatch(records=records, handles=[], created_ms=0)
    batch.identity, batch.sequence = ProducerIdentity(5), 7
    assert requests.encode(batch, feature_level=level) is None
    header = parse_header(batch.encoded)
    assert (header.is_short, header.producer_id, header.base_sequence) == (is_short, 5, 7)
    before = bytes(batch.encoded)
    assert requests.encode(batch, feature_level=SHORT_BATCHES) is None
    assert batch.encoded == before  # A batch that is sent again is the same.
