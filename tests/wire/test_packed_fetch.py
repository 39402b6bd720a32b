"""The packed form of a follower's fetch says the same as JSON, or there is none; any other bytes are refused."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raftlog.errors import InvalidRequestError, StorageError
from raftlog.model import TopicIdPartition
from raftlog.wire.codec import decode_json, encode_json
from raftlog.wire.data import DivergingEpoch
from raftlog.wire.errors import WireError
from raftlog.wire.packed_fetch import (
    MOST_PARTITIONS,
    VERSION,
    decode_response,
    is_packed,
    pack_request,
    pack_response,
    unpack_request,
)
from raftlog.wire.replication import (
    NO_SESSION,
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)

OFFSET = st.integers(-1, (1 << 63) - 1)
INT32 = st.integers(-1, (1 << 31) - 1)
COUNT = st.integers(0, (1 << 32) - 1)
TOPIC_ID = st.binary(min_size=16, max_size=16).map(bytes.hex)
SESSION = st.from_regex(r"([0-9]{1,19}-[0-9]{1,9})?", fullmatch=True)
POSITION = st.builds(
    ReplicaFetchPartition,
    topic_id=TOPIC_ID,
    partition=COUNT,
    leader_epoch=INT32,
    fetch_offset=OFFSET,
    last_fetched_epoch=INT32,
    log_start_offset=OFFSET,
    check_crcs=st.booleans(),
)
REQUEST = st.builds(
    ReplicaFetchRequest,
    replica_id=INT32,
    broker_epoch=OFFSET,
    max_wait_ms=COUNT,
    min_bytes=COUNT,
    max_bytes=COUNT,
    partition_max_bytes=COUNT,
    session_id=SESSION,
    session_epoch=COUNT,
    answers_lost=st.booleans(),
    partitions=st.lists(POSITION, max_size=3).map(tuple),
)
RESULT = st.builds(
    ReplicaFetchResult,
    topic_id=TOPIC_ID,
    partition=COUNT,
    length=COUNT,
    high_watermark=OFFSET,
    log_start_offset=OFFSET,
    leader_epoch=INT32,
    replicated_offset=OFFSET,
)
RESPONSE = st.builds(
    ReplicaFetchResponse,
    session_id=SESSION,
    partitions=st.lists(RESULT, max_size=3).map(tuple),
    packs=st.just(True),
)
AT = ReplicaFetchPartition(topic_id="c" * 32, partition=1, leader_epoch=2, fetch_offset=3, last_fetched_epoch=2)
ASKED = ReplicaFetchRequest(replica_id=1, broker_epoch=2, session_id="9-1", session_epoch=5, partitions=(AT,))
FOUND = ReplicaFetchResult(topic_id="c" * 32, partition=1, length=80, high_watermark=3)
ANSWERED = ReplicaFetchResponse(session_id="9-1", partitions=(FOUND,), packs=True)


@given(REQUEST)
@settings(deadline=None)
def test_a_request_is_read_as_it_was_packed(request: ReplicaFetchRequest) -> None:
    packed = pack_request(request)
    assert packed is not None
    assert is_packed(packed)
    assert unpack_request(packed) == unpack_request(memoryview(packed)) == request
    assert request == decode_json(ReplicaFetchRequest, encode_json(request))


@given(RESPONSE)
@settings(deadline=None)
def test_an_answer_is_read_in_both_forms(response: ReplicaFetchResponse) -> None:
    packed = pack_response(response)
    assert packed is not None
    assert is_packed(packed)
    assert not is_packed(encode_json(response))
    assert decode_response(memoryview(packed), StorageError) == response
    assert decode_response(encode_json(response), StorageError) == response


@pytest.mark.parametrize(
    "change",
    [
        {"forgotten": (TopicIdPartition("c" * 32, 1),)},
        {"partitions": (AT,) * (MOST_PARTITIONS + 1)},
        {"partitions": (replace(AT, topic_id="c" * 31),)},
        {"partitions": (replace(AT, topic_id="C" * 32),)},
        {"partitions": (replace(AT, topic_id="c" * 34),)},
        {"partitions": (replace(AT, topic_id="a name"),)},
        {"partitions": (replace(AT, partition=-1),)},
        {"partitions": (replace(AT, fetch_offset=1 << 63),)},
        {"session_epoch": NO_SESSION},
        {"session_id": "s" * 256},
        {"session_id": "ä"},
        {"max_wait_ms": -1},
        {"broker_epoch": 1 << 63},
    ],
)
def test_an_unusual_request_has_no_packed_form(change: dict[str, Any]) -> None:
    assert pack_request(ASKED) is not None
    assert pack_request(replace(ASKED, **change)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": (FOUND,) * (MOST_PARTITIONS + 1)},
        {"partitions": (replace(FOUND, topic_id="x"),)},
        {"partitions": (replace(FOUND, diverging=DivergingEpoch(epoch=1, end_offset=2)),)},
        {"partitions": (FOUND, replace(FOUND, error=WireError.of(InvalidRequestError("no"))))},
        {"session_id": "s" * 256},
    ],
)
def test_an_unusual_answer_has_no_packed_form(change: dict[str, Any]) -> None:
    assert pack_response(ANSWERED) is not None
    assert pack_response(replace(ANSWERED, **change)) is None


@given(message=st.binary(max_size=200), data=st.data())
@example(message=b"", data=None)
@settings(deadline=None, max_examples=500)
def test_any_bytes_are_read_or_refused(message: bytes, data: Any) -> None:
    packed = bytearray(pack_request(ASKED) or b"")
    if data is not None:
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    for some in (bytes([VERSION]) + message, bytes(packed), bytes(packed)[: len(message)]):
        try:
            again = unpack_request(some)
        except InvalidRequestError:
            continue
        assert pack_request(again) is not None
    try:
        decode_response(bytes([VERSION]) + message, StorageError)
    except StorageError:
        return


def test_what_a_message_announces_is_what_it_has() -> None:
    """A count or a length that is too large has nothing allocated for it."""
    packed, answer = pack_request(ASKED), pack_response(ANSWERED)
    assert packed is not None
    assert answer is not None
    for wrong in (packed + b"\0", packed[:-1], packed[:1], packed[:2] + b"\xff" + packed[3:], b"\1\2" + packed[2:]):
        with pytest.raises(InvalidRequestError, match="a packed fetch"):
            unpack_request(wrong)
    for wrong in (answer + b"\0", answer[:-1], answer[:2], answer[:1] + b"\xff" + answer[2:]):
        with pytest.raises(StorageError, match="a packed answer"):
            decode_response(wrong, StorageError)
    with pytest.raises(InvalidRequestError, match="not ASCII"):
        unpack_request(packed.replace(b"9-1", b"\xff-1"))
    with pytest.raises(StorageError, match="not ASCII"):
        decode_response(answer.replace(b"9-1", b"\xff-1"), StorageError)


def test_too_many_partitions_are_refused_before_they_are_read() -> None:
    packed = pack_request(replace(ASKED, partitions=(AT,) * MOST_PARTITIONS))
    assert packed is not None
    position = packed[-struct.calcsize("<16sIiqiqB") :]
    with pytest.raises(InvalidRequestError, match=f"at most {MOST_PARTITIONS} partitions"):
        unpack_request(packed[:2] + bytes([MOST_PARTITIONS + 1]) + packed[3:] + position)
