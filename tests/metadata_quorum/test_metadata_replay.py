"""Records and images: golden forms, totality, round trips."""

from __future__ import annotations

import json
import os
from pathlib import Path

import orjson
from hypothesis import given
from hypothesis import strategies as st
from metadata_support import cluster, with_partition

from raftlog.metadata_quorum import records as r
from raftlog.metadata_quorum.image import MetadataImage, image_from_plain, image_to_plain, replay_command
from raftlog.model import Address
from raftlog.wire.codec import encode_json

GOLDEN = Path(__file__).parent / "golden"
EVERY_RECORD: tuple[r.Record, ...] = (
    r.BeginEpoch(controller_id=101),
    r.RegisterBroker(
        broker_id=1, incarnation_id="i", public=Address("h", 1), internal=Address("h", 2), rack="r", version="v"
    ),
    r.UnfenceBroker(broker_id=1, broker_epoch=2),
    r.FenceBroker(broker_id=1, broker_epoch=2),
    r.BeginControlledShutdown(broker_id=1, broker_epoch=2),
    r.CreateTopic(topic="t", topic_id="a" * 32, configs={"flush": "os", "retention_ms": 5}),
    r.ChangePartition(
        topic_id="a" * 32, partition=0, replicas=(1, 2), isr=(1,), leader=1, leader_epoch=3, partition_epoch=4
    ),
    r.DeleteTopic(topic_id="b" * 32),
    r.AllocateProducerIds(next_producer_id=1_000),
)


def golden(name: str, made: bytes) -> bytes:
    path = GOLDEN / name
    if os.environ.get("REWRITE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(json.loads(made), indent=2) + "\n")
    return orjson.dumps(orjson.loads(path.read_bytes()))


def test_commands_are_read_for_ever():
    command = r.Command(controller_epoch=7, sequence=9, records=EVERY_RECORD)

    stored = golden("command.json", r.encode_command(command))

    assert r.decode_command(stored) == command
    assert orjson.loads(r.encode_command(command)) == orjson.loads(stored)


def test_images_are_read_for_ever():
    image = with_partition(cluster(), isr=(1, 2), leader=1)

    stored = golden("image.json", encode_json(image_to_plain(image)))

    assert image_from_plain(orjson.loads(stored)) == image


def test_kinds_and_fields_of_newer_versions_are_skipped():
    newer = [{"kind": "FromTheFuture", "x": 1}, {**r.record_to_plain(EVERY_RECORD[8]), "added": True}]
    payload = orjson.dumps({"version": 2, "controller_epoch": -1, "sequence": 0, "records": newer})

    image, applied = replay_command(MetadataImage(), 0, payload)

    assert (image.next_producer_id, applied) == (1_000, (EVERY_RECORD[8],))


ANYTHING = st.recursive(
    st.none() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)
MANGLED = st.builds(
    lambda record, field, value: {**r.record_to_plain(record), field: value},
    st.sampled_from(EVERY_RECORD),
    st.sampled_from(["kind", "topic_id", "configs", "replicas", "broker_id", "partition", "public", "leader"]),
    ANYTHING,
)
COMMANDS = st.fixed_dictionaries(
    {"controller_epoch": ANYTHING | st.just(-1), "sequence": ANYTHING | st.just(0), "records": st.lists(MANGLED)}
)


@given(st.binary() | ANYTHING.map(encode_json) | COMMANDS.map(encode_json))
def test_replay_never_raises(payload: bytes):
    image, _ = replay_command(MetadataImage(), 5, payload)

    assert image.offset == 5
    assert image_from_plain(orjson.loads(encode_json(image_to_plain(image)))) == image


@given(st.lists(st.sampled_from(EVERY_RECORD), max_size=12))
def test_any_order_of_records_gives_an_image_that_survives_a_snapshot(records: list[r.Record]):
    payload = r.encode_command(r.Command(controller_epoch=-1, sequence=0, records=tuple(records)))
    image, _ = replay_command(MetadataImage(), 3, payload)

    assert image_from_plain(orjson.loads(encode_json(image_to_plain(image)))) == image


def test_commands_of_an_earlier_epoch_and_repeated_ones_change_nothing():
    def command(epoch: int, sequence: int, *records: r.Record) -> bytes:
        return r.encode_command(r.Command(controller_epoch=epoch, sequence=sequence, records=records))

    allocate = [r.AllocateProducerIds(next_producer_id=number) for number in range(10)]
    image, _ = replay_command(MetadataImage(), 1, command(-1, -1, r.BeginEpoch(controller_id=101)))
    image, first = replay_command(image, 2, command(1, 1, allocate[1]))
    image, again = replay_command(image, 3, command(1, 1, allocate[2]))
    image, _ = replay_command(image, 4, command(-1, -1, r.BeginEpoch(controller_id=102)))
    image, late = replay_command(image, 5, command(1, 2, allocate[3]))
    image, current = replay_command(image, 6, command(4, 1, allocate[4]))

    assert (first, again, late, current) == ((allocate[1],), (), (), (allocate[4],))
    assert (image.controller_epoch, image.controller_id, image.offset, image.next_producer_id) == (4, 102, 6, 4)
