"""Kafka's JSON definitions of messages, as `generate_kafka_messages.py` needs them.

The definitions are in Kafka's client library, a jar, in the folder `common/message/`. `kafka_messages.json.gz` beside
this file has those of `APIS`, without comments and descriptions.

Source: Kafka's `clients/src/main/resources/common/message/README.md`.
"""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

DEFINITIONS = Path(__file__).with_name("kafka_messages.json.gz")
APIS = (
    *("Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup"),
    *("Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups", "SaslHandshake", "ApiVersions"),
    *("CreateTopics", "DeleteTopics", "DeleteRecords", "InitProducerId", "OffsetForLeaderEpoch", "AddPartitionsToTxn"),
    *("AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "DescribeAcls", "CreateAcls", "DeleteAcls", "DescribeConfigs"),
    *("AlterConfigs", "DescribeLogDirs", "SaslAuthenticate", "CreatePartitions", "DeleteGroups", "ElectLeaders"),
    *("IncrementalAlterConfigs", "AlterPartitionReassignments", "ListPartitionReassignments", "OffsetDelete"),
    *("DescribeClientQuotas", "AlterClientQuotas", "DescribeUserScramCredentials", "AlterUserScramCredentials"),
    *("DescribeQuorum", "DescribeCluster", "DescribeProducers", "UnregisterBroker", "DescribeTransactions"),
    *("ListTransactions", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "DescribeTopicPartitions"),
)
PROTOCOLS = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment")
NAMES = (*(f"{api}{kind}" for api in APIS for kind in ("Request", "Response")), *PROTOCOLS)
LAYOUT = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""What `struct` reads and writes, by Kafka's name of the type."""
SIZE = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}
_KEPT = {
    *("apiKey", "name", "validVersions", "flexibleVersions", "latestVersionUnstable", "fields", "commonStructs"),
    *("type", "versions", "nullableVersions", "taggedVersions", "tag", "default", "ignorable"),
}
_EVERY = 32767


def read_jar(jar: Path) -> list[dict[str, Any]]:
    """Return the definitions of `NAMES` in a kafka-clients jar."""
    with zipfile.ZipFile(jar) as archive:
        texts = [archive.read(f"common/message/{name}.json").decode() for name in NAMES]
    return [_kept(json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))) for text in texts]


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _kept(inner) for key, inner in value.items() if key in _KEPT}
    return [_kept(inner) for inner in value] if isinstance(value, list) else value


def read_definitions() -> list[dict[str, Any]]:
    """Return the committed definitions."""
    document = json.loads(gzip.decompress(DEFINITIONS.read_bytes()))
    return list(document["messages"])


def write_definitions(jar: Path) -> None:
    """Commit the definitions of a jar."""
    notice = (
        f"Message definitions of {jar.stem} by the Apache Software Foundation, Apache License 2.0, without comments "
        "and descriptions: https://www.apache.org/licenses/LICENSE-2.0. See kafka_messages.NOTICE."
    )
    document = {"notice": notice, "messages": read_jar(jar)}
    DEFINITIONS.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0))


@dataclass(frozen=True)
class Versions:
    """A range of versions, both ends included; empty if `last` is below `first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        if not text or text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), _EVERY)
        first, dash, last = text.partition("-")
        return cls(int(first), int(last if dash else first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def within(self, other: Versions) -> Versions:
        return Versions(max(self.first, other.first), min(self.last, other.last))

    def __bool__(self) -> bool:
        return self.first <= self.last

    def __str__(self) -> str:
        return f"v{self.first}+" if self.last == _EVERY else f"v{self.first}-{self.last}"


class Field:
    """A field of a struct."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.type: str = definition["type"].removeprefix("[]")
        self.is_array: bool = definition["type"].startswith("[]")
        self.name = snake(definition["name"])
        self.versions = Versions.parse(definition["versions"])
        self.nullable = Versions.parse(definition.get("nullableVersions"))
        self.tagged = Versions.parse(definition.get("taggedVersions"))
        self.tag: int = definition.get("tag", -1)
        self.ignorable = bool(definition.get("ignorable", False))
        self.fields: list[dict[str, Any]] | None = definition.get("fields")
        self._default = definition.get("default")

    @property
    def is_struct(self) -> bool:
        return self.type[0].isupper()

    @property
    def is_fixed(self) -> bool:
        return not self.is_array and self.type in LAYOUT

    @property
    def is_tagged_struct(self) -> bool:
        """Whether the field is a struct that is left out where it has its default: `None` stands for it."""
        return self.is_struct and not self.is_array and bool(self.tagged)

    @property
    def may_be_none(self) -> bool:
        return self.is_tagged_struct or (bool(self.nullable) and self.type != "records")

    @property
    def default(self) -> str:
        """The default as Python source."""
        text = self._default
        if text == "null" or self.type == "records" or self.is_tagged_struct:
            return "None"
        if self.is_array or self.is_struct:
            assert text in (None, ""), f"{self.name} has the default {text}"
            return "[]" if self.is_array else f"{self.type}()"
        if self.type == "string":
            return json.dumps(text or "")
        if self.type in ("bytes", "uuid"):
            return "ZERO_UUID" if self.type == "uuid" else 'b""'
        if self.type == "bool":
            return str(str(text).lower() == "true")
        return str(float(text or 0)) if self.type == "float64" else str(int(str(text or 0), 0))


class Message:
    """A request, a response or another message, with the structs that it is made of."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.name: str = definition["name"]
        self.api_key: int | None = definition.get("apiKey")
        self.versions = Versions.parse(definition["validVersions"])
        self.flexible = Versions.parse(definition["flexibleVersions"])
        self.is_last_unstable = bool(definition.get("latestVersionUnstable", False))
        self._common = {one["name"]: one["fields"] for one in definition.get("commonStructs", [])}
        self.structs: dict[str, list[Field]] = {}
        """Fields by the struct's name, inner structs first, the message itself last."""
        self._add(self.name, definition["fields"])

    def _add(self, name: str, definitions: list[dict[str, Any]]) -> None:
        fields = [Field(one) for one in definitions]
        fields = [field for field in fields if field.versions.within(self.versions)]
        for field in fields:
            if field.is_struct and field.type not in self.structs:
                self._add(field.type, field.fields if field.fields is not None else self._common[field.type])
        self.structs[name] = fields

    @cached_property
    def all_versions(self) -> range:
        return range(self.versions.first, self.versions.last + 1)

    def struct_versions(self, name: str) -> list[int]:
        """Return the versions of the message in which a struct is used."""
        if name == self.name:
            return list(self.all_versions)
        return [
            version
            for version in self.all_versions
            if any(
                field.type == name and version in field.versions and version in self.struct_versions(outer)
                for outer, fields in self.structs.items()
                for field in fields
            )
        ]

    def minimum(self, name: str, version: int) -> int:
        """Return the least bytes of a struct."""
        tags = 1 if version in self.flexible else 0
        present = [one for one in self.structs[name] if version in one.versions and version not in one.tagged]
        return tags + sum(self.least(field, version) for field in present)

    def least(self, field: Field, version: int) -> int:
        """Return the least bytes of a field."""
        flexible = version in self.flexible
        if field.is_array or field.type in ("bytes", "records"):
            return 1 if flexible else 4
        return 1 if version in field.nullable and field.is_struct else self.element(field, version)

    def element(self, field: Field, version: int) -> int:
        """Return the least bytes of a field's value, or of one of its elements if it is an array."""
        if field.is_struct:
            return self.minimum(field.type, version)
        if field.type == "string":
            return 1 if version in self.flexible else 2
        return SIZE.get(field.type, 1)


def snake(name: str) -> str:
    """Return a name in Python's style: "LeaderIdAndEpoch" is "leader_id_and_epoch"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def messages() -> dict[str, Message]:
    """Return every message by its name."""
    return {one["name"]: Message(one) for one in read_definitions()}
