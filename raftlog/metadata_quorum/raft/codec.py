"""Raft messages as bytes: MessagePack of plain data only.

Decoding returns only None, booleans, numbers, text, bytes, lists, and dictionaries with text keys: ormsgpack refuses
extension types without a hook.
"""

from __future__ import annotations

from typing import Any

import ormsgpack

from raftlog.errors import RaftlogError


class MessageFormatError(RaftlogError):
    """The bytes are not a message of this format."""


def encode(value: object) -> bytes:
    """Encode plain data; tuples are written as lists.

    Raises:
        TypeError: the value is not plain data.
    """
    return ormsgpack.packb(value)


def decode(data: bytes) -> Any:
    """Decode one message; sequences become lists.

    Bytes after it are ignored: frames and files have their own lengths.

    Raises:
        MessageFormatError: a tag is unknown, or the data is too short or nested too deeply.
    """
    try:
        return ormsgpack.unpackb(data)
    except ValueError as error:
        raise MessageFormatError(f"not a message: {error}") from None
