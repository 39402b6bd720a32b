"""Records and images: golden forms, totality, round trips."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import orjson
from hypothesis import given
from hypothesis import strategies as st
from metadata_support import cluster, with_partition

from raftlog.metadata_quorum import records as r
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.image_codec import digest, image_from_plain, image_to_plain, public_image
from raftlog.metadata_quorum.replay import replay, replay_command
from raftlog.model import Acl, Address, PartitionState, ScramVerifier, UserCredential
from raftlog.wire.codec import encode_json

GOLDEN = Path(__file__).parent / "golden"
FIRST_RECORDS: tuple[r.Record, ...] = (
    r.BeginEpoch(controller_id=101),
    r.RegisterBroker(
        broker_id=1, incarnation_id="i", public=Address("h", 1), internal=Address("h", 2), rack="r", version="v"
    ),
    r.UnfenceBroker(broker_id=1, broker_epoch=2),
    r.FenceBroker(broker_id=1, broker_epoch=2),
    r.BeginControlledShutdown(broker_id=1, broker_epoch=2),
    r.CreateTopic(topic="t", topic_id="a" * 32, configs={"flush": "os", "retention_ms": 5}),
    r.ChangePartition(
        topic_id="a" * 32,
        partition=0,
        state=PartitionState(replicas=(1, 2), isr=(1,), leader=1, leader_epoch=3, partition_epoch=4),
    ),
    r.DeleteTopic(topic_id="b" * 32),
    r.AllocateProducerIds(next_producer_id=1_000),
)
RULE = Acl(principal="ann", operation="read", resource_type="topic", resource_name="t")
EVERY_RECORD: tuple[r.Record, ...] = (
    *FIRST_RECORDS,
    r.AllocateProducerIds(next_producer_id=2_000, key="ab" * 16),
    r.IdentifyCluster(cluster_id="c"),
    r.SetFeatureLevel(level=1),
    r.RegisterBroker(
        broker_id=2,
        incarnation_id="j",
        public=Address("h", 3),
        internal=Address("h", 4),
        storage_id="s",
        max_feature_level=2,
        broker_epoch=7,
        replaced=("h", "i"),
    ),
    r.UnregisterBroker(broker_id=1, broker_epoch=2),
    r.ChangePartition(
        topic_id="a" * 32,
        partition=1,
        state=PartitionState(
            replicas=(1, 2, 3),
            isr=(1,),
            leader=1,
            leader_epoch=3,
            partition_epoch=4,
            elr=(2,),
            adding=(3,),
            removing=(1,),
        ),
    ),
    r.ChangeTopicConfigs(topic_id="a" * 32, configs={"retention_ms": None, "segment_bytes": 8192}),
    r.ChangeBrokerConfigs(broker_id=-1, configs={"retention_ms": 5, "segment_ms": None}),
    r.PutUser(credential=UserCredential(user="ann", iterations=4096, salt="00", stored_key="01", server_key="02")),
    r.PutUser(
        credential=UserCredential.of(
            "eve", {"SCRAM-SHA-512": ScramVerifier(iterations=4096, salt="03", stored_key="04", server_key="05")}
        )
    ),
    r.DeleteUser(user="bob"),
    r.PutAcl(acl=RULE),
    r.DeleteAcl(acl=replace(RULE, permission="deny")),
    r.ChangeQuota(user="ann", limits={"producer_byte_rate": 1e6, "request_rate": None}),
)


RULE_RECORD = r.PutAcl(acl=RULE)


def golden(name: str, made: bytes) -> bytes:
    path = GOLDEN / name
    if os.environ.get("REWRITE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(json.loads(made), indent=2) + "\n")
    return orjson.dumps(orjson.loads(path.read_bytes()))


def test_commands_are_read_for_ever():
    """`command.json` was written before records had the fields that they have now, and is never written again."""
    first = r.Command(controller_epoch=7, sequence=9, records=FIRST_RECORDS)
    command = r.Command(controller_epoch=7, sequence=9, records=EVERY_RECORD, more=True)

    assert r.decode_command((GOLDEN / "command.json").read_bytes()) == first

    stored = golden("every_record.json", r.encode_command(command))
    assert r.decode_command(stored) == command
    assert orjson.loads(r.encode_command(command)) == orjson.loads(stored)


def test_users_of_earlier_versions_are_read_and_have_one_verifier():
    """Before feature level 4 a user had only the verifier of SCRAM-SHA-256, in these fields."""
    fields = b'"user":"ann","iterations":100000,"salt":"00","stored_key":"01","server_key":"02"'
    fields += b',"mechanism":"SCRAM-SHA-256"'
    ann = UserCredential(user="ann", iterations=100_000, salt="00", stored_key="01", server_key="02")
    record = r.record_from_plain(orjson.loads(b'{"kind":"PutUser","credential":{%b}}' % fields))
    assert record == r.PutUser(credential=ann)
    stored = orjson.loads(encode_json(image_to_plain(cluster()))) | {"users": [orjson.loads(b"{%b}" % fields)]}
    assert image_from_plain(stored).users == {"ann": ann}
    assert list(ann.verifiers) == ["SCRAM-SHA-256"]


def test_readers_that_are_not_nodes_get_no_verifier():
    image = replay(MetadataImage(), 7, EVERY_RECORD)
    assert {*image.users} == {"ann", "eve"}
    shown = encode_json(image_to_plain(public_image(replace(image, pending=EVERY_RECORD))))
    for secret in ("00", "01", "02", "03", "04", "05"):
        assert b'"%b"' % secret.encode() not in shown
    assert shown.count(b"4096") == 4


def test_images_are_read_for_ever():
    """`image.json` is of the time when partitions were objects, and is never written again."""
    image = with_partition(cluster(), isr=(1, 2), leader=1)
    everything = replay(image, 7, EVERY_RECORD[:7] + EVERY_RECORD[8:])
    everything = replace(everything, pending=(EVERY_RECORD[1], RULE_RECORD))

    assert image_from_plain(orjson.loads((GOLDEN / "image.json").read_bytes())) == image
    stored = golden("every_table.json", encode_json(image_to_plain(everything)))
    assert image_from_plain(orjson.loads(stored)) == everything
    assert all(
        getattr(everything, table) for table in ("brokers", "broker_configs", "topics", "users", "acls", "quotas")
    )


def test_digests_tell_images_apart_and_ignore_entries_that_decide_nothing():
    image = with_partition(cluster(), isr=(1, 2), leader=1)
    loaded = image_from_plain(orjson.loads(encode_json(image_to_plain(image))))

    assert digest(loaded) == digest(image) == digest(replay(image, 99, ()))
    assert digest(image) != digest(with_partition(cluster(), isr=(1, 2), leader=2))


def test_a_decision_of_many_commands_takes_effect_with_its_last_one_or_not_at_all():
    records = [r.AllocateProducerIds(next_producer_id=number) for number in range(1, 40)]
    begin = r.encode_command(r.Command(controller_epoch=-1, sequence=-1, records=(r.BeginEpoch(controller_id=101),)))
    parts = r.encode_decision(records, controller_epoch=0, sequence=1, max_bytes=500)
    image, _ = replay_command(MetadataImage(), 0, begin)
    assert len(parts) > 3
    assert all(len(part) < 700 for part in parts)

    for offset, part in enumerate(parts[:-1], start=1):
        image, applied = replay_command(image, offset, part)
        image = image_from_plain(orjson.loads(encode_json(image_to_plain(image))))  # A snapshot in the middle.
        assert (applied, image.next_producer_id) == ((), 0)
    void, _ = replay_command(image, 50, begin)
    done, applied = replay_command(image, 60, parts[-1])

    assert (applied, done.next_producer_id, done.pending) == (tuple(records), 39, ())
    late, applied = replay_command(void, 61, parts[-1])
    assert (applied, late.next_producer_id, late.pending) == ((), 0, ())


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
    lambda record, field, value: {**orjson.loads(encode_json(r.record_to_plain(record))), field: value},
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


def test_many_topics_are_deleted_without_a_look_at_all_names_for_each():
    """One decision that deleted 64 of 10,000 topics held the event loop of each node for 40 ms."""
    created = [r.CreateTopic(topic=f"t{number}", topic_id=f"{number:032x}") for number in range(5_000)]
    image = replay(MetadataImage(), 1, created)

    def deletes(count: int) -> float:
        began = time.process_time()
        after = replay(image, 2, [r.DeleteTopic(topic_id=f"{number:032x}") for number in range(count)])
        took = time.process_time() - began
        assert list(after.names.items()) == [(topic.topic, topic.topic_id) for topic in created[count:]]
        return took

    assert min(deletes(1_000) for _ in range(3)) < 200 * min(deletes(1) for _ in range(10))


def test_a_topic_id_that_is_given_a_second_name_keeps_that_one_only():
    records = [r.CreateTopic(topic=name, topic_id="a" * 32) for name in ("first", "second")]
    image = replay(MetadataImage(), 1, records)
    assert image.names == {"second": "a" * 32}
    assert replay(image, 2, [r.DeleteTopic(topic_id="a" * 32)]).names == {}
