"""Records of coordinators: a typed key and a typed value, in versioned JSON.

A record's type is a frozen dataclass whose `KEY` names the fields that say what it is about; they become the log
record's key, so compaction keeps the newest of each. The rest becomes its value, with `VERSION`. A reader skips kinds
and fields that it does not know; a field that is new needs a default, for records of earlier versions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, make_dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, get_type_hints

from raftlog.errors import RaftlogError
from raftlog.schema import from_plain
from raftlog.wire.codec import decode_plain, encode_json

_log = logging.getLogger(__name__)
_KIND = "kind"
_VERSION = "version"


class KeyedRecord(Protocol):
    """A frozen dataclass with these two class variables."""

    KEY: ClassVar[tuple[str, ...]]
    VERSION: ClassVar[int]


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What a key spoke of is no more."""

    kind: type[KeyedRecord]
    key: tuple[Any, ...]
    """Values of the kind's `KEY` fields, in that order."""


LogRecord: TypeAlias = KeyedRecord | Tombstone


def tombstone(record: KeyedRecord) -> Tombstone:
    """Return the record that deletes `record`."""
    return Tombstone(type(record), tuple(getattr(record, name) for name in record.KEY))


class UnreadableRecordError(RaftlogError):
    """The bytes are no record of this codec."""


class RecordCodec:
    """The kinds of record of one internal topic. Their class names are part of the format."""

    def __init__(self, kinds: Iterable[type[KeyedRecord]]) -> None:
        self._kinds = {kind.__name__: kind for kind in kinds}
        self._values = {kind: _value_fields(kind) for kind in self._kinds.values()}
        self._key_types = {kind: _key_type(kind) for kind in self._kinds.values()}

    def encode(self, record: LogRecord) -> tuple[bytes, bytes | None]:
        """Return the key and value of a log record; no value is a tombstone."""
        if isinstance(record, Tombstone):
            return _encode_key(record.kind, record.key), None
        kind = type(record)
        value = {_VERSION: kind.VERSION} | {name: getattr(record, name) for name in self._values[kind]}
        return _encode_key(kind, tuple(getattr(record, name) for name in kind.KEY)), encode_json(value)

    def decode(self, key: bytes | None, value: bytes | None) -> LogRecord | None:
        """Rebuild a record; None for a kind that this version does not know.

        Raises:
            UnreadableRecordError: a known kind with fields that do not fit, or no record at all.
        """
        named = decode_plain(key or b"", error=UnreadableRecordError)
        if not isinstance(named, dict) or _KIND not in named:
            raise UnreadableRecordError(f"expected a key with {_KIND!r}, received {(key or b'')[:80]!r}")
        kind = self._kinds.get(str(named.pop(_KIND)))
        if kind is None:
            return None
        if value is None:
            about: Any = from_plain(self._key_types[kind], named, error=UnreadableRecordError, ignore_unknown=True)
            return Tombstone(kind, tuple(getattr(about, name) for name in kind.KEY))
        document = decode_plain(value, error=UnreadableRecordError)
        if not isinstance(document, Mapping):
            raise UnreadableRecordError(f"{kind.__name__}: expected an object as its value, received {value[:80]!r}")
        plain = {name: item for name, item in document.items() if name != _VERSION} | named
        return from_plain(kind, plain, error=UnreadableRecordError, ignore_unknown=True)

    def read(self, key: bytes | None, value: bytes | None, *, where: str) -> LogRecord | None:
        """Rebuild a record; None for what cannot be read, which is logged: replay is total."""
        try:
            return self.decode(key, value)
        except RaftlogError as error:
            _log.error("%s: skipping a record that cannot be read: %s", where, error.message)
            return None


def _encode_key(kind: type[KeyedRecord], values: tuple[Any, ...]) -> bytes:
    # Fields in their fixed order: one key must have one form, or compaction would keep several of it.
    return encode_json({_KIND: kind.__name__} | dict(zip(kind.KEY, values, strict=True)))


def _value_fields(kind: type[KeyedRecord]) -> tuple[str, ...]:
    names = tuple(field.name for field in fields(kind))  # type: ignore[arg-type]
    assert set(kind.KEY) <= set(names)
    return tuple(name for name in names if name not in kind.KEY)


def _key_type(kind: type[KeyedRecord]) -> type:
    """Return a dataclass of the key's fields alone: what a tombstone is checked by."""
    hints = get_type_hints(kind)
    return make_dataclass(f"{kind.__name__}Key", [(name, hints[name]) for name in kind.KEY], frozen=True)
