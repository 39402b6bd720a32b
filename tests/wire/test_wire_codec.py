"""Frames and JSON bodies, good and hostile."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.errors import InvalidRequestError, RaftlogError
from raftlog.model import PartitionState, TopicIdPartition
from raftlog.wire import codec, paths
from raftlog.wire.codec import (
    decode_frame,
    decode_json,
    decode_plain,
    encode_frame,
    encode_json,
    encode_listing,
    split_parts,
)
from raftlog.wire.controller import AlterPartitionResult, RegisterBrokerRequest
from raftlog.wire.data import FetchRequest, ProducePartition, ProduceRequest
from raftlog.wire.errors import WireError
from raftlog.wire.groups import GroupListing, GroupsResponse
from raftlog.wire.replication import ReplicaFetchRequest

REQUEST = ProduceRequest(
    partitions=(ProducePartition(topic="t", partition=0, length=2), ProducePartition(topic="t", partition=1, length=3))
)


def test_a_frame_returns_as_it_was():
    head, rest = decode_frame(ProduceRequest, b"".join(encode_frame(REQUEST, [b"ab", b"cde"])))

    assert head == REQUEST
    assert [bytes(part) for part in split_parts(rest, [p.length for p in head.partitions])] == [b"ab", b"cde"]


@pytest.mark.parametrize("lengths", [[2, 4], [2], [-1, 6], []])
def test_lengths_that_do_not_add_up_are_refused(lengths: list[int]):
    with pytest.raises(InvalidRequestError, match=r"announces .* received 5"):
        split_parts(memoryview(b"abcde"), lengths)


@given(st.binary(max_size=60))
def test_hostile_frames_raise_our_error_only(body: bytes):
    with pytest.raises(RaftlogError):
        decode_frame(FetchRequest, body)
    with pytest.raises(RaftlogError):
        decode_frame(FetchRequest, struct.pack("<I", max(0, len(body) - 4)) + body)


def test_nested_types_return_as_they_were():
    state = PartitionState(replicas=(1, 2), isr=(1,), leader=1, leader_epoch=3, partition_epoch=9)
    result = AlterPartitionResult(topic_id="x", partition=0, state=state)
    refused = AlterPartitionResult(topic_id="x", partition=0, error=WireError.of(InvalidRequestError("no")))

    assert decode_json(AlterPartitionResult, encode_json(result)) == result
    assert decode_json(AlterPartitionResult, encode_json(refused)).error is not None


@pytest.mark.parametrize("count", [0, 1, 256, 257, 512, 1_000])
def test_a_listing_is_the_same_text_in_slices(count: int):
    groups = (GroupListing(group_id=f'"}},{{{one}', phase="Empty", members=0, coordinator=2) for one in range(count))
    listing = GroupsResponse(groups=tuple(groups), matching=count, next="n")
    assert encode_listing(listing) == encode_json(listing)


def test_a_listing_is_encoded_in_slices(monkeypatch: pytest.MonkeyPatch):
    slices = list[int]()

    def noted(value: object) -> bytes:
        slices.append(len(value) if isinstance(value, tuple) else 0)
        return encode_json(value)

    monkeypatch.setattr(codec, "encode_json", noted)
    groups = tuple(GroupListing(group_id=str(one), phase="Empty", members=0, coordinator=2) for one in range(600))
    encode_listing(GroupsResponse(groups=groups))
    assert slices == [256, 256, 88, 0]


def test_partitions_that_a_follower_forgets_return_as_they_were():
    request = ReplicaFetchRequest(
        replica_id=1, broker_epoch=2, partitions=(), forgotten=(TopicIdPartition("x", 0), TopicIdPartition("y", 7))
    )

    assert decode_json(ReplicaFetchRequest, encode_json(request)) == request


def test_addresses_travel_as_text():
    body = b'{"cluster_id":"c","broker_id":1,"incarnation_id":"i","public":"a:1","internal":"b:2"}'
    request = decode_json(RegisterBrokerRequest, body)

    assert decode_json(RegisterBrokerRequest, encode_json(request)) == request
    assert b'"public":"a:1"' in encode_json(request)


def test_malformed_json_says_where_and_what():
    with pytest.raises(InvalidRequestError, match=r"not valid JSON: .*received b'\{\"partitions\"'"):
        decode_json(FetchRequest, b'{"partitions"')


def test_path_variables_are_quoted():
    assert paths.fill(paths.RECORDS, topic="a/b c", partition=0) == "/v1/topics/a%2Fb%20c/partitions/0/records"


@pytest.mark.parametrize(
    "body", [b"[" + b"[]," * 500 + b"0]", b"[" + b"{}," * 500 + b"0]", b"[" + b"1," * 1_001 + b"1]"]
)
def test_too_many_values_are_refused_before_they_are_made(body: bytes):
    with pytest.raises(InvalidRequestError, match=r"expected at most 1000 values, received about \d+"):
        decode_plain(body, max_values=1_000)
    assert decode_plain(body, max_values=1_100 + len(body))
