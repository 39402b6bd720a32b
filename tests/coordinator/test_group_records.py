"""The records of `__consumer_offsets` are a format: what version 1 wrote must be read for ever."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from raftlog.coordinator.group.records import (
    CODEC,
    ClassicAssigned,
    ClassicGroupChanged,
    ClassicMemberChanged,
    ClassicMembership,
    ClassicProtocol,
    CurrentChanged,
    GroupChanged,
    MemberChanged,
    OffsetCommitted,
    OffsetPending,
    TargetChanged,
    TargetEpochChanged,
    TopicMetadata,
)
from raftlog.coordinator.runtime import LogRecord, tombstone

GOLDEN = Path(__file__).parent / "golden" / "group_records_v1.txt"
TOPIC_ID = "0123456789abcdef" * 2
MEMBER = MemberChanged(
    group_id="g",
    member_id="m",
    instance_id="i",
    rack="r",
    client_id="c",
    client_host="127.0.0.1",
    topics=("t", "u"),
    pattern="v.*",
    assignor="range",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=300_000,
)
COMMITTED = OffsetCommitted(
    group_id="g", topic="t", partition=3, offset=42, topic_id=TOPIC_ID, leader_epoch=7, metadata="é", committed_at_ms=9
)
CLASSIC_MEMBER = ClassicMemberChanged(
    group_id="g",
    member_id="m",
    instance_id="i",
    client_id="c",
    client_host="127.0.0.1",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=300_000,
    protocols=(ClassicProtocol(name="range", metadata="AAEAAP8="), ClassicProtocol(name="é", metadata="")),
)
CLASSIC_GROUP = ClassicGroupChanged(
    group_id="g", phase="Stable", generation=3, protocol_type="consumer", protocol="range", leader="m"
)
MEMBERSHIP = ClassicMembership(group_id="g", member_id="m", protocols=CLASSIC_MEMBER.protocols)
RECORDS: list[LogRecord] = [
    GroupChanged(group_id="g", epoch=4, topics={"t": TopicMetadata(topic_id=TOPIC_ID, partitions=6)}),
    GroupChanged(group_id="g", epoch=5, topics={}, empty_since_ms=1_700_000_000_000),
    MEMBER,
    MemberChanged(group_id="g", member_id="n", session_timeout_ms=1, rebalance_timeout_ms=2),
    TargetChanged(group_id="g", member_id="m", partitions={"t": (0, 2)}),
    TargetEpochChanged(group_id="g", assignment_epoch=4),
    CurrentChanged(
        group_id="g",
        member_id="m",
        member_epoch=4,
        previous_epoch=3,
        state="unrevoked",
        assigned={"t": (0,)},
        revoking={"t": (1, 2)},
    ),
    COMMITTED,
    OffsetPending(
        producer_id=77, producer_epoch=2, group_id="g", topic="t", partition=3, offset=43, committed_at_ms=10
    ),
    tombstone(MEMBER),
    tombstone(COMMITTED),
    CLASSIC_GROUP,
    ClassicGroupChanged(group_id="g", phase="Empty", generation=4, empty_since_ms=1_700_000_000_000),
    CLASSIC_MEMBER,
    ClassicAssigned(group_id="g", member_id="m", assignment="AAE="),
    tombstone(CLASSIC_GROUP),
    tombstone(CLASSIC_MEMBER),
    MEMBERSHIP,
    tombstone(MEMBERSHIP),
]


def test_what_version_1_wrote_is_read():
    lines = GOLDEN.read_bytes().splitlines()
    read = [CODEC.decode(*_parts(line)) for line in lines]
    assert read == RECORDS


@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_this_version_writes_version_1(number: int):
    assert CODEC.encode(RECORDS[number]) == _parts(GOLDEN.read_bytes().splitlines()[number])


def _parts(line: bytes) -> tuple[bytes, bytes | None]:
    key, _, value = line.partition(b" => ")
    return key, None if value == b"(tombstone)" else value


def test_records_take_the_memory_of_their_text():
    """orjson's results have 4 KB each: a commit of 10,000 offsets took 83 MB until it was appended."""
    tracemalloc.start()
    try:
        encoded = [CODEC.encode(replace(COMMITTED, partition=partition)) for partition in range(1_000)]
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    text = sum(len(key) + len(value or b"") for key, value in encoded)
    assert text < taken < text + 1_000 * 250
