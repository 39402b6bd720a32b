"""Images as plain data, for snapshots, for brokers, and for digests.

Partitions are most of an image, so they are rows under one list of column names; a reader skips unknown columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import orjson
from orjson import OPT_SORT_KEYS

from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.metadata_quorum.records import PutUser, Record, UnreadableRecordError, record_from_plain, record_to_plain
from raftlog.model import Acl, BrokerRegistration, PartitionState, Quota, UserCredential
from raftlog.schema import from_plain, to_plain

T = TypeVar("T")
_SCALARS = ("offset", "controller_id", "controller_epoch", "last_sequence", "next_producer_id")
_LATER_SCALARS = ("feature_level", "plain_producer_ids")
"""Images of earlier versions lack them."""
_COLUMNS = ("partition", *PartitionState.__slots__)
_NUMBERS = frozenset(("partition", "leader", "leader_epoch", "partition_epoch"))


def image_to_plain(image: MetadataImage) -> dict[str, Any]:
    """Return the image as plain data for `encode_json`."""
    plain: dict[str, Any] = {name: getattr(image, name) for name in (*_SCALARS, *_LATER_SCALARS)}
    plain["cluster_id"] = image.cluster_id
    plain["producer_id_key"] = image.producer_id_key
    plain["pending"] = [record_to_plain(record) for record in image.pending]
    plain["brokers"] = list(image.brokers.values())
    plain["broker_configs"] = {str(broker): dict(configs) for broker, configs in image.broker_configs.items()}
    plain["columns"] = _COLUMNS
    plain["topics"] = [_topic_to_plain(topic) for topic in image.topics.values()]
    plain["users"] = list(image.users.values())
    plain["acls"] = list(image.acls)
    plain["quotas"] = list(image.quotas.values())
    return plain


def without_verifiers(credential: UserCredential) -> UserCredential:
    """Return a credential without the parts that allow guessing its password."""
    other = credential.sha512
    hidden = None if other is None else replace(other, salt="", stored_key="", server_key="")
    return replace(credential, salt="", stored_key="", server_key="", sha512=hidden)


def public_image(image: MetadataImage) -> MetadataImage:
    """Return an image without the verifiers of passwords, for readers that have not proved to be nodes."""
    users = {name: without_verifiers(credential) for name, credential in image.users.items()}
    return replace(image, users=users, pending=tuple(map(public_record, image.pending)))


def public_record(record: Record) -> Record:
    """Return a record without the verifier of a password."""
    return replace(record, credential=without_verifiers(record.credential)) if isinstance(record, PutUser) else record


def digest(image: MetadataImage) -> str:
    """Return a hash of everything that was decided: equal on all nodes that have applied the same entries.

    It does not cover the verifiers of passwords, which brokers without the cluster key do not receive.
    """
    plain = image_to_plain(public_image(image))
    for soft in ("offset", "last_sequence", "pending"):  # These change with entries that have no effect (yet).
        del plain[soft]
    return hashlib.sha256(orjson.dumps(plain, default=to_plain, option=OPT_SORT_KEYS)).hexdigest()


def _topic_to_plain(topic: TopicImage) -> dict[str, Any]:
    rows = [
        (number, s.replicas, s.isr, s.leader, s.leader_epoch, s.partition_epoch, s.elr, s.adding, s.removing)
        for number, s in topic.partitions.items()
    ]
    return {"topic": topic.topic, "topic_id": topic.topic_id, "configs": dict(topic.configs), "rows": rows}


def image_from_plain(plain: Mapping[str, Any]) -> MetadataImage:
    """Rebuild an image.

    Raises:
        UnreadableRecordError: the data is not an image.
    """
    try:
        brokers = _several(BrokerRegistration, plain["brokers"])
        topics = [_topic_from_plain(topic, plain.get("columns", ())) for topic in plain["topics"]]
        quotas = _several(Quota, plain.get("quotas", ()))
        return MetadataImage(
            **{name: int(plain[name]) for name in _SCALARS},
            **{name: int(plain[name]) for name in _LATER_SCALARS if name in plain},
            cluster_id=str(plain.get("cluster_id", "")),
            producer_id_key=bytes.fromhex(plain.get("producer_id_key", "")).hex(),
            pending=tuple(_records(plain.get("pending", ()))),
            brokers={broker.broker_id: broker for broker in brokers},
            broker_configs={int(broker): configs for broker, configs in plain.get("broker_configs", {}).items()},
            topics={topic.topic_id: topic for topic in topics},
            names={topic.topic: topic.topic_id for topic in topics},
            users={user.user: user for user in _several(UserCredential, plain.get("users", ()))},
            acls=dict.fromkeys(_several(Acl, plain.get("acls", ()))),
            quotas={(quota.user, quota.client_id): quota for quota in quotas},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableRecordError(f"not a metadata image: {error!r}") from None


def _several(cls: type[T], items: Sequence[object]) -> list[T]:
    return [from_plain(cls, item, error=UnreadableRecordError, ignore_unknown=True) for item in items]


def _records(items: Sequence[Mapping[str, Any]]) -> list[Record]:
    return [record for item in items if (record := record_from_plain(item)) is not None]


def _topic_from_plain(plain: Mapping[str, Any], columns: Sequence[str]) -> TopicImage:
    if "rows" in plain:
        known = [(at, name) for at, name in enumerate(columns) if name in _COLUMNS]
        rows = [{name: row[at] for at, name in known} for row in plain["rows"]]
    else:  # The form of images before there were columns.
        rows = plain["partitions"]
    return TopicImage(
        topic=plain["topic"],
        topic_id=plain["topic_id"],
        configs=plain["configs"],
        partitions={row["partition"]: _partition(row) for row in rows},
    )


def _partition(row: Mapping[str, Any]) -> PartitionState:
    state: dict[str, Any] = {}
    for name, value in row.items():
        if name in _NUMBERS:
            fits = type(value) is int
        else:
            fits = type(value) is list and all(type(item) is int for item in value)
            value = tuple(value) if fits else value  # noqa: PLW2901
        if not fits:
            raise UnreadableRecordError(f"not a metadata image: a partition whose {name} is {value!r:.80}")
        state[name] = value
    del state["partition"]
    return PartitionState(**state)
