"""Requests of nodes and of other users, sent by senders with an identity of their own: refused, audited, no effect.

Each request would be effective if the sender were the one that it claims to be. The senders are an unauthenticated
client, a user with a valid certificate, and another broker: by its certificate, or by the cluster key.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from attack_support import ADMIN, Attacker, Site, attacked
from secured_support import code_of

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import CONSUMER_OFFSETS, Acl, TopicPartition
from raftlog.record import NewRecord, build_batch
from raftlog.wire import media, paths
from raftlog.wire.codec import encode_frame
from raftlog.wire.data import ProducePartition, ProduceRequest
from raftlog.wire.producer_ids import is_of_transactions

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
TOPIC, OTHER_TOPIC = "ledger", "notes"
LEADER, FOLLOWER, ROGUE = 1, 2, 3
"""The replicas of `TOPIC`, and the broker that misbehaves."""
USER = Attacker("user", "users/mallory", principal="User:mallory")
BROKER = Attacker("broker", f"broker-{ROGUE}/node", principal=f"Broker:{ROGUE}")
PROVEN = Attacker("proven broker", f"broker-{ROGUE}/node", proves=f"Broker:{ROGUE}", principal=f"Broker:{ROGUE}")
STRANGER = Attacker("stranger")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    with attacked(tmp_path_factory.mktemp("attacked") / "cluster", "mallory", "victim") as running:
        yield running


@pytest.fixture
async def site(cluster: LocalCluster) -> Site:
    found = Site(cluster)
    async with found.admin() as admin:
        if TOPIC not in [topic.topic for topic in await admin.list_topics()]:
            for topic in (TOPIC, OTHER_TOPIC):
                await admin.create_topic(topic, partitions=1, replication_factor=2)
                await admin.reassign_partitions({(topic, 0): [LEADER, FOLLOWER]})
            await until_led(admin)
            await admin.create_acls(
                [
                    Acl(principal="victim", operation="all", resource_type="topic", resource_name=TOPIC),
                    Acl(principal="victim", operation="all", resource_type="group", resource_name="*"),
                    Acl(principal="victim", operation="all", resource_type="transactional_id", resource_name="payer"),
                    Acl(principal="mallory", operation="all", resource_type="topic", resource_name=OTHER_TOPIC),
                    Acl(principal="mallory", operation="all", resource_type="transactional_id", resource_name="own"),
                ]
            )
            await admin.put_user("victim", "victim-secret-1")
    return found


async def until_led(admin: Admin) -> None:
    """Wait until the replicas are where the tests want them."""
    async with asyncio.timeout(30):
        while True:
            parts = [(await admin.describe_topic(topic)).partitions[0] for topic in (TOPIC, OTHER_TOPIC)]
            if all((part.leader, sorted(part.isr)) == (LEADER, [LEADER, FOLLOWER]) for part in parts):
                return
            if all(sorted(part.isr) == [LEADER, FOLLOWER] for part in parts):
                await admin.elect_leaders([(topic, 0) for topic in (TOPIC, OTHER_TOPIC)])
            await asyncio.sleep(0.1)


def place_of(image: MetadataImage) -> tuple[str, Any]:
    topic = image.topic(TOPIC)
    assert topic is not None
    return topic.topic_id, topic.partitions[0]


def fetch(image: MetadataImage, offset: int, replica: int, epoch: int) -> dict[str, Any]:
    topic_id, state = place_of(image)
    partition = {
        "topic_id": topic_id,
        "partition": 0,
        "leader_epoch": state.leader_epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": state.leader_epoch,
        "log_start_offset": 0,
    }
    return {"replica_id": replica, "broker_epoch": epoch, "max_wait_ms": 0, "partitions": [partition]}


def forged(image: MetadataImage) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return requests that only the brokers which they name may send: by path, the node and the body."""
    topic_id, state = place_of(image)
    epochs = {broker.broker_id: broker.broker_epoch for broker in image.brokers.values()}
    leader = {"broker_id": LEADER, "broker_epoch": epochs[LEADER]}
    of_partition = {"topic_id": topic_id, "partition": 0, "leader_epoch": state.leader_epoch}
    smaller = {"partition_epoch": state.partition_epoch, "new_isr": [leader]}
    newcomer = {"broker_id": 9, "incarnation_id": "newcomer", "public": "127.0.0.1:1", "internal": "127.0.0.1:2"}
    registration = {"cluster_id": "", "max_feature_level": 1 << 20} | newcomer
    return {
        paths.ALTER_PARTITIONS: ("controller-101", leader | {"partitions": [of_partition | smaller]}),
        paths.DAMAGED_REPLICAS: (
            "controller-101",
            {"broker_id": FOLLOWER, "broker_epoch": epochs[FOLLOWER], "partitions": [of_partition]},
        ),
        paths.HEARTBEAT: ("controller-101", leader | {"metadata_offset": image.offset, "want_shutdown": True}),
        paths.REGISTER_BROKER: ("controller-101", registration),
        paths.PRODUCER_ID_BLOCK: ("controller-101", leader),
        paths.REPLICA_FETCH: (f"broker-{LEADER}", fetch(image, 0, FOLLOWER, epochs[FOLLOWER])),
    }


FORGED = (
    paths.ALTER_PARTITIONS,
    paths.DAMAGED_REPLICAS,
    paths.HEARTBEAT,
    paths.REGISTER_BROKER,
    paths.PRODUCER_ID_BLOCK,
    paths.REPLICA_FETCH,
)


@pytest.mark.parametrize("attacker", [USER, BROKER, PROVEN], ids=lambda attacker: attacker.name)
@pytest.mark.parametrize("path", FORGED)
async def test_a_request_that_names_another_broker_changes_nothing(site: Site, attacker: Attacker, path: str):
    before = await site.image()
    node, body = forged(before)[path]
    body = dict(body) | ({"cluster_id": site.cluster.cluster_id} if "cluster_id" in body else {})

    status, answer = await site.ask(attacker, node, "POST", path, json=body)

    assert (status, code_of(answer)) == (403, "AUTHORIZATION_FAILED"), answer
    assert await site.image() == before
    line = await site.denied(attacker.principal, f"POST {path}")
    assert line["node"] == node
    assert line["listener"] == "internal"


async def test_what_another_broker_may_not_send_its_own_broker_may(site: Site):
    """The requests of the test above are effective: the broker that they name may send them."""
    before = await site.image()
    node, body = forged(before)[paths.ALTER_PARTITIONS]
    own = Attacker("leader", f"broker-{LEADER}/node")

    status, answer = await site.ask(own, node, "POST", paths.ALTER_PARTITIONS, json=body)

    assert status == 200, answer
    assert orjson.loads(answer)["partitions"][0]["state"]["isr"] == [LEADER]
    async with site.admin() as admin:
        await until_led(admin)


async def test_a_forged_fetch_does_not_move_the_high_watermark(site: Site):
    """The follower is paused, so its leader waits for it. The forged fetch says that it has every record."""
    leader, follower = f"broker-{LEADER}", f"broker-{FOLLOWER}"
    image = await site.image()
    epoch = image.brokers[FOLLOWER].broker_epoch
    async with site.admin() as admin, Producer(site.cluster.bootstrap, security=site.security("victim")) as producer:
        await producer.send(TOPIC, b"on both")
        before = await end_of(admin)
        site.cluster.pause(follower)
        try:
            sent = asyncio.ensure_future(producer.send(TOPIC, b"on the leader alone"))
            for attacker in (USER, BROKER, PROVEN):
                for replica, claimed in ((FOLLOWER, epoch), (FOLLOWER, epoch + 1), (9, epoch)):
                    body = fetch(image, before + 1, replica, claimed)
                    status, answer = await site.ask(
                        attacker, f"broker-{LEADER}", "POST", paths.REPLICA_FETCH, json=body
                    )
                    assert (status, code_of(answer)) == (403, "AUTHORIZATION_FAILED"), answer
            # The rogue broker may name itself, and is not a replica.
            own = fetch(image, before + 1, ROGUE, image.brokers[ROGUE].broker_epoch)
            status, answer = await site.ask(BROKER, leader, "POST", paths.REPLICA_FETCH, json=own)
            assert b'"error":{' in answer or status != 200, answer
            assert await end_of(admin) == before
            assert not sent.done()
        finally:
            site.cluster.resume(follower)
        async with asyncio.timeout(30):
            await sent


def identity_of(producer: Producer) -> tuple[int, int]:
    """Return a producer's id and epoch."""
    identity = producer._sender._accumulator._queues[TopicPartition(TOPIC, 0)].identity
    assert identity is not None
    return identity.producer_id, identity.producer_epoch


async def end_of(admin: Admin) -> int:
    """Return the topic's high watermark."""
    return (await admin.list_offsets(TOPIC))[0].high_watermark


@pytest.mark.parametrize("claimed", [f"Broker:{LEADER}", "Controller:101"])
async def test_a_node_with_a_certificate_cannot_prove_to_be_another_one(site: Site, claimed: str):
    """All nodes have the same cluster key: with it alone, each could sign for any other."""
    before = await site.image()
    node, body = forged(before)[paths.ALTER_PARTITIONS]
    liar = replace(BROKER, proves=claimed)

    for _ in range(2):  # The second time the proof is remembered.
        status, answer = await site.ask(liar, node, "POST", paths.ALTER_PARTITIONS, json=body)
        assert (status, code_of(answer)) == (403, "AUTHORIZATION_FAILED"), answer

    assert await site.image() == before
    wanted = f"the proof is of {claimed}, and the certificate of Broker:{ROGUE}"
    await site.denied(f"Broker:{ROGUE}", f"POST {paths.ALTER_PARTITIONS}", reason=wanted)


async def test_a_client_without_a_certificate_reaches_no_internal_listener(site: Site):
    before = await site.image()
    for path, (node, body) in forged(before).items():
        for stranger in (STRANGER, replace(STRANGER, proves=f"Broker:{LEADER}")):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await site.ask(stranger, node, "POST", path, json=body)
    assert await site.image() == before


async def test_users_may_not_send_what_coordinators_and_replicas_send(site: Site):
    """Markers, joins, repairs and the metadata with users are for nodes; the batches of replicas, too."""
    image = await site.image()
    topic_id, state = place_of(image)
    part = {"topic": TOPIC, "partition": 0, "topic_id": topic_id}
    leader = f"broker-{LEADER}"
    watch = f"{paths.METADATA_WATCH}?after_offset=-1&max_wait_ms=0"
    async with (
        site.admin() as admin,
        Producer(site.cluster.bootstrap, transactional_id="payer", security=site.security("victim")) as producer,
    ):
        async with producer.transaction():
            await producer.send(TOPIC, b"payment")
            identity = identity_of(producer)
            before = await end_of(admin)
            marker = {"producer_id": identity[0], "producer_epoch": identity[1] + 1, "coordinator_epoch": 0}
            joining = {"transactional_id": "payer", "producer_id": identity[0], "producer_epoch": identity[1]}
            repair = {"topic_id": topic_id, "partition": 0, "offset": 0, "leader_epoch": state.leader_epoch}
            requests: list[tuple[str, str, str, Any]] = [
                ("POST", leader, paths.WRITE_MARKERS, {"marker": marker | {"committed": True}, "partitions": [part]}),
                ("POST", leader, paths.JOIN_TRANSACTION, joining | {"partitions": [part]}),
                ("POST", leader, paths.REPAIR, repair),
                ("GET", "controller-101", watch, None),
                ("POST", "controller-101", paths.PUT_USER, {"credential": {"user": "mallory"}}),
            ]
            for method, node, path, body in requests:
                status, answer = await site.ask(USER, node, method, path, json=body)
                assert (status, code_of(answer)) == (403, "AUTHORIZATION_FAILED"), (path, answer)
                assert b"stored_key" not in answer
                assert b"payment" not in answer
                line = await site.denied("User:mallory", f"{method} {path.partition('?')[0]}")
                assert line["operation"] == "cluster_action"
            assert await end_of(admin) == before
        async with asyncio.timeout(20):
            while await end_of(admin) == before:
                await asyncio.sleep(0.02)
        assert await end_of(admin) == before + 1  # The marker of its coordinator.


async def test_a_stolen_producer_id_is_of_no_use_to_other_users(site: Site):
    """Neither without the right to the topic, nor with it and without the right to the transactional id."""
    mallory_may = Acl(principal="mallory", operation="write", resource_type="topic", resource_name=TOPIC)
    victim = site.security("victim")
    async with (
        site.admin() as admin,
        Producer(site.cluster.bootstrap, security=victim) as plain,
        Producer(site.cluster.bootstrap, transactional_id="payer", security=victim) as producer,
    ):
        await plain.send(TOPIC, b"first")
        async with producer.transaction():
            await producer.send(TOPIC, b"payment")
            before = await end_of(admin)
            for stolen, sequence, transactional_id in (
                (identity_of(plain), 1, ""),
                (identity_of(producer), 1, ""),
                (identity_of(producer), 1, "own"),
                (identity_of(producer), 1, "payer"),
            ):
                results = await stolen_batch(site, stolen, sequence, transactional_id)
                assert set(results) == {"AUTHORIZATION_FAILED"}, (transactional_id, results)
            line = await site.denied("User:mallory", f"POST {paths.PRODUCE}")
            assert (line["operation"], line["name"]) == ("write", TOPIC)
            assert await site.denied("User:mallory", f"POST {paths.BATCHES}")

            await admin.create_acls([mallory_may])
            try:
                for transactional_id, code in (
                    ("", "INVALID_TXN_STATE"),
                    ("own", "INVALID_PRODUCER_ID_MAPPING"),
                    ("payer", "AUTHORIZATION_FAILED"),
                ):
                    results = await stolen_batch(site, identity_of(producer), 1, transactional_id)
                    assert set(results) == {code}, (transactional_id, results)
            finally:
                await admin.delete_acls(principal="User:mallory", operation="write", resource_name=TOPIC)
            assert await end_of(admin) == before
            await producer.send(TOPIC, b"payment, too")
        await plain.send(TOPIC, b"second")
    async with Consumer(
        site.cluster.bootstrap, TOPIC, start="earliest", isolation="read_committed", security=victim
    ) as consumer:
        values: list[bytes | None] = []
        while not values or values[-1] != b"second":
            values.append((await anext(consumer)).value)
    assert values[-4:] == [b"first", b"payment", b"payment, too", b"second"]


async def stolen_batch(site: Site, stolen: tuple[int, int], sequence: int, transactional_id: str) -> list[str]:
    """Send a batch under another producer's id by both ways; return the codes of the errors."""
    record = NewRecord(b"mallory's", timestamp=time.time_ns() // 1_000)
    transactional = is_of_transactions(stolen[0])
    batch = bytes(
        build_batch(
            [record],
            producer_id=stolen[0],
            producer_epoch=stolen[1],
            base_sequence=sequence,
            transactional=transactional,
        )
    )
    leader = f"broker-{LEADER}"
    entry = ProducePartition(topic=TOPIC, partition=0, length=len(batch))
    frame = encode_frame(ProduceRequest(transactional_id=transactional_id, partitions=(entry,)), [batch])
    _, answer = await site.ask(
        USER,
        leader,
        "POST",
        paths.PRODUCE,
        public=True,
        data=b"".join(bytes(part) for part in frame),
        headers={"Content-Type": media.FRAME},
    )
    decoded = orjson.loads(answer)
    codes = [(decoded.get("error") or decoded["partitions"][0]["error"])["code"]]
    query = f"?transactional_id={transactional_id}" if transactional_id else ""
    path = paths.fill(paths.BATCHES, topic=TOPIC, partition=0) + query
    _, answer = await site.ask(
        USER, leader, "POST", path, public=True, data=batch, headers={"Content-Type": media.BATCHES}
    )
    return [*codes, code_of(answer)]


@pytest.mark.parametrize("attacker", [STRANGER, USER], ids=lambda attacker: attacker.name)
async def test_settings_of_internal_topics_and_users_are_not_for_everyone(site: Site, attacker: Attacker):
    """Not even for a user that may do anything to a topic of its own."""
    async with Consumer(
        site.cluster.bootstrap, TOPIC, group_id="readers", security=site.security("victim")
    ) as consumer:
        await consumer.fetch(max_records=1, max_wait_ms=10)  # Makes the topic of groups.
    expected = (401, "AUTHENTICATION_FAILED") if attacker is STRANGER else (403, "AUTHORIZATION_FAILED")
    who = "User:ANONYMOUS" if attacker is STRANGER else attacker.principal
    before = await site.image()
    topic = paths.fill(paths.TOPIC, topic=CONSUMER_OFFSETS)
    requests: list[tuple[str, str, str, Any]] = [
        ("PATCH", topic, paths.TOPIC, {"configs": {"min_insync_replicas": 1}}),
        ("PATCH", topic, paths.TOPIC, {"partitions": 7}),
        ("DELETE", topic, paths.TOPIC, None),
        ("POST", paths.fill(paths.DELETE_RECORDS, topic=CONSUMER_OFFSETS, partition=0), paths.DELETE_RECORDS, {}),
        ("GET", f"{topic}/records", paths.TOPIC_RECORDS, None),
        ("GET", paths.USERS, paths.USERS, None),
        ("PUT", paths.fill(paths.USER, user="victim"), paths.USER, {"password": "guessed-secret-1"}),
        ("GET", paths.ACLS, paths.ACLS, None),
        ("DELETE", paths.fill(paths.GROUP, group="readers"), paths.GROUP, None),
    ]
    for method, path, route, body in requests:
        status, answer = await site.ask(attacker, f"broker-{LEADER}", method, path, public=True, json=body)
        assert (status, code_of(answer)) == expected, (method, path, answer)
        assert await site.denied(who, f"{method} {route}")
    assert await site.image() == before


async def test_verifiers_of_passwords_are_shown_to_no_user(site: Site):
    """Neither to a super user on the public listener, nor to one on the internal listener."""
    watch = f"{paths.METADATA_WATCH}?after_offset=-1&max_wait_ms=0"
    _, known = await site.ask(BROKER, "controller-101", "GET", watch)
    credential = orjson.loads(known)["snapshot"]["users"]
    stored = [text for text in orjson.dumps(credential).decode().split('"') if len(text) == 64]
    assert stored  # A broker has them.
    for node, path, public in (
        ("controller-101", watch, False),
        ("broker-1", paths.USERS, True),
        ("broker-1", paths.METADATA, True),
    ):
        status, answer = await site.ask(ADMIN, node, "GET", path, public=public)
        assert status == 200, answer
        assert not [text for text in stored if text.encode() in answer]
    named = f"{watch}&broker_id={LEADER}"
    status, answer = await site.ask(BROKER, "controller-101", "GET", named)
    assert (status, code_of(answer)) == (403, "AUTHORIZATION_FAILED"), answer
