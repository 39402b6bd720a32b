"""Records of coordinators: a typed key and a typed value, in versioned JSON.

A record's type is a frozen dataclass. Its `KEY` lists the fields that become the log record's key, so compaction keeps
the newest record of each key. The other fields become its value, with `VERSION`. A reader skips unknown kinds and
fields; a new field needs a default, for records of earlier versions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, make_dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, get_type_hints

from raftlog.errors import RaftlogError
from raftlog.schema import from_plain
from raftlog.wire.codec import decode_plain, encode_json, trimmed

_log = logging.getLogger(__name__)
_KIND = "kind"
_VERSION = "version"


class KeyedRecord(Protocol):
    """A frozen dataclass with these two class variables."""

    KEY: ClassVar[tuple[str, ...]]
    VERSION: ClassVar[int]


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The deletion of a key."""

    kind: type[KeyedRecord]
    key: tuple[Any, ...]
    """Values of the kind's `KEY` fields, in that order."""


LogRecord: TypeAlias = KeyedRecord | Tombstone


def tombstone(record: KeyedRecord) -> Tombstone:
    """Return the record that deletes `record`."""
    return Tombstone(type(record), tuple(getattr(record, name) for name in record.KEY))


class UnreadableRecordError(RaftlogError):
    """The bytes are not a record of this codec."""


class RecordCodec:
    """The kinds of record of one internal topic. Their class names are part of the format."""

    def __init__(self, kinds: Iterable[type[KeyedRecord]]) -> None:
        self._kinds = {kind.__name__: kind for kind in kinds}
        self._values = {kind: _value_fields(kind) for kind in self._kinds.values()}
        self._key_types = {kind: _key_type(kind) for kind in self._kinds.values()}

    def encode(self, record: LogRecord) -> tuple[bytes, bytes | None]:
        """Return the key and value of a log record; the value of a tombstone is None."""
        if isinstance(record, Tombstone):
            return _encode_key(record.kind, record.key), None
        kind = type(record)
        value = {_VERSION: kind.VERSION} | {name: getattr(record, name) for name in self._values[kind]}
        return _encode_key(kind, tuple(getattr(record, name) for name in kind.KEY)), trimmed(encode_json(value))

    def decode(self, key: bytes | None, value: bytes | None) -> LogRecord | None:
        """Rebuild a record; None for an unknown kind.

        Raises:
            UnreadableRecordError: the fields do not match the kind, or the bytes are not a record.
        """
        key_document = decode_plain(key or b"", error=UnreadableRecordError)
        if not isinstance(key_document, dict) or _KIND not in key_document:
            raise UnreadableRecordError(f"expected a key with {_KIND!r}, received {(key or b'')[:80]!r}")
        kind = self._kinds.get(str(key_document.pop(_KIND)))
        if kind is None:
            return None
        if value is None:
            key_fields: Any = from_plain(
                self._key_types[kind], key_document, error=UnreadableRecordError, ignore_unknown=True
            )
            return Tombstone(kind, tuple(getattr(key_fields, name) for name in kind.KEY))
        document = decode_plain(value, error=UnreadableRecordError)
        if not isinstance(document, Mapping):
            raise UnreadableRecordError(f"{kind.__name__}: expected an object as its value, received {value[:80]!r}")
        plain = {name: item for name, item in document.items() if name != _VERSION} | key_document
        return from_plain(kind, plain, error=UnreadableRecordError, ignore_unknown=True)

    def read(self, key: bytes | None, value: bytes | None, *, where: str) -> LogRecord | None:
        """Rebuild a record; log an unreadable one and return None, because replay is total."""
        try:
            return self.decode(key, value)
        except RaftlogError as error:
            _log.error("%s: skipping an unreadable record: %s", where, error.message)
            return None


def _encode_key(kind: type[KeyedRecord], values: tuple[Any, ...]) -> bytes:
    # In a fixed order: if one key had several encodings, compaction would keep a record of each.
    return trimmed(encode_json({_KIND: kind.__name__} | dict(zip(kind.KEY, values, strict=True))))


def _value_fields(kind: type[KeyedRecord]) -> tuple[str, ...]:
    names = tuple(field.name for field in fields(kind))  # type: ignore[arg-type]
    assert set(kind.KEY) <= set(names)
    return tuple(name for name in names if name not in kind.KEY)


def _key_type(kind: type[KeyedRecord]) -> type:
    """Return a dataclass of the key's fields only, to validate tombstones."""
    hints = get_type_hints(kind)
    return make_dataclass(f"{kind.__name__}Key", [(name, hints[name]) for name in kind.KEY], frozen=True)
