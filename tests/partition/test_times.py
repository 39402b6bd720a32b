"""Timestamps of clients' records at the leader: limits, and records that are already past retention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from replica_support import Solo

from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.record import NewRecord, build_batch

HOUR_US = 3_600_000_000


def numbered(sequence: int, *times_us: int) -> bytearray:
    records = [NewRecord(b"x", None, timestamp_us) for timestamp_us in times_us]
    return build_batch(records, producer_id=7, producer_epoch=0, base_sequence=sequence)


async def test_the_newest_and_the_oldest_record_count(tmp_path: Path):
    solo = Solo(tmp_path, message_timestamp_before_max_ms=1_000, message_timestamp_after_max_ms=2_000)
    solo.clock.now_ms = 10_000
    for times in ((9_000_000, 12_000_001), (12_000_000, 8_999_999)):
        with pytest.raises(InvalidRequestError, match="nothing was appended") as refused:
            solo.replica.append_now(numbered(0, *times), acks=1, of_client=True)
        assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
        assert refused.value.details["timestamp_us"] == times[1]
    assert solo.replica.append_now(numbered(0, 9_000_000, 12_000_000), acks=1, of_client=True).base_offset == 0
    await solo.close()


async def test_a_repeat_is_answered_although_its_time_has_passed(tmp_path: Path):
    solo = Solo(tmp_path, message_timestamp_before_max_ms=1_000)
    first = solo.replica.append_now(numbered(0, 0), acks=1, of_client=True)
    solo.clock.now_ms = 10_000
    again = solo.replica.append_now(numbered(0, 0), acks=1, of_client=True)
    assert (again.base_offset, again.duplicate) == (first.base_offset, True)
    await solo.close()


async def test_what_coordinators_write_has_no_limits(tmp_path: Path):
    solo = Solo(tmp_path)
    assert solo.replica.append_now(numbered(0, 2 * HOUR_US), acks=1).base_offset == 0
    await solo.close()


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, 1_000),
        ({"retention_by": "append_time"}, -1),
        ({"cleanup_policy": "compact,delete"}, 1_000),
        ({"cleanup_policy": "compact"}, -1),
        ({"retention_ms": -1}, -1),
    ],
    ids=str,
)
async def test_produce_reports_records_that_retention_deletes_at_once(
    tmp_path: Path, configs: dict[str, Any], expected: int
):
    solo = Solo(tmp_path, **{"retention_ms": 1_000, **configs})
    solo.clock.now_ms = 10_000
    batches = [build_batch([NewRecord(b"x", b"k", times_us)]) for times_us in (8_999_999, 9_000_000)]
    told = [solo.replica.append_now(batch, acks=1, of_client=True).outlived_retention_ms for batch in batches]
    assert told == [expected, -1]
    await solo.close()
