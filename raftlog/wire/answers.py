"""Answers that handlers write as plain objects: records as JSON, errors, and what an operation has done.

A field of `NotRequired` is absent where it does not apply. The types are those of the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from raftlog.error_codes import ErrorCode
from raftlog.model import BrokerId, Offset
from raftlog.wire.errors import WireError


class ErrorInfo(TypedDict):
    """What went wrong, and whether the same request may succeed later."""

    code: ErrorCode
    message: str
    """What failed, what was received, and what to do."""
    retriable: bool
    """Whether the same request may succeed later."""
    details: NotRequired[Mapping[str, Any]]
    """More about it, by name, such as the offsets that can be read."""
    request_id: NotRequired[str]
    """The request's id, which log lines of the node about it have, too."""


class ErrorAnswer(TypedDict):
    """The body of every answer that reports an error."""

    error: ErrorInfo


class RecordPlace(TypedDict):
    """Where a record was stored, or why it was not."""

    partition: int
    offset: NotRequired[Offset]
    """The record's offset; -1 with `acks=0`."""
    error: NotRequired[WireError]
    """Why the record was not stored, or may not be."""


class JsonProduceAnswer(TypedDict):
    """Answer of `POST paths.TOPIC_RECORDS`: an entry for each record, in order."""

    offsets: Sequence[RecordPlace]


class JsonProduceError(ErrorAnswer):
    """The first error; the other records may be stored."""

    offsets: NotRequired[Sequence[RecordPlace]]
    """An entry for each record, in order; absent if the whole request was refused."""


class JsonHeader(TypedDict):
    """A header of a record."""

    key: str
    value: str | None
    value_encoding: NotRequired[Literal["base64"]]
    """Present if the bytes are not UTF-8."""


class JsonRow(TypedDict, total=False):
    """A record as JSON, with the columns that the query names."""

    topic: str
    partition: int
    offset: Offset
    timestamp: int
    """Milliseconds since 1970."""
    key: str | None
    key_encoding: Literal["base64"]
    """Present if the bytes are not UTF-8."""
    value: str | None
    value_encoding: Literal["base64"]
    """Present if the bytes are not UTF-8."""
    headers: Sequence[JsonHeader]


class JsonReadRecord(TypedDict):
    """A record as JSON."""

    topic: str
    partition: int
    offset: Offset
    timestamp: int
    """Milliseconds since 1970."""
    key: str | None
    key_encoding: NotRequired[Literal["base64"]]
    """Present if the bytes are not UTF-8."""
    value: str | None
    value_encoding: NotRequired[Literal["base64"]]
    """Present if the bytes are not UTF-8."""
    headers: Sequence[JsonHeader]


class JsonRecords(TypedDict):
    """Answer of `GET paths.RECORDS` as JSON."""

    records: Sequence[JsonReadRecord]
    next_offset: Offset
    """The offset of the next read."""
    more: bool
    """Whether there are more records than the answer holds."""
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset


class Alive(TypedDict):
    """Answer of `GET paths.LIVEZ`."""

    status: Literal["alive"]


class Ready(TypedDict):
    """Answer of `GET paths.READYZ`."""

    status: Literal["ready"]
    broker_id: BrokerId


class UnregisteredBroker(TypedDict):
    """Answer of `DELETE paths.BROKER`."""

    broker_id: BrokerId
    unregistered: Literal[True]


class DeletedUser(TypedDict):
    """Answer of `DELETE paths.USER`."""

    user: str
    deleted: Literal[True]


class DeletedTopic(TypedDict):
    """Answer of `DELETE paths.TOPIC`."""

    topic: str
    deleted: Literal[True]


class DeletedGroup(TypedDict):
    """Answer of `DELETE paths.GROUP`."""

    group: str
    deleted: Literal[True]
