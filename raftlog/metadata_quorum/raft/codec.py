"""Raft messages as bytes: MessagePack of plain data only.

Decoding builds None, booleans, numbers, text, bytes, lists and dictionaries with keys of text, and nothing else,
whatever the bytes say: ormsgpack refuses extension types unless it is given a hook for them.
"""

from __future__ import annotations

from typing import Any

import ormsgpack

from raftlog.errors import RaftlogError


class MessageFormatError(RaftlogError):
    """The bytes are no message of this format."""


def encode(value: object) -> bytes:
    """Encode plain data; tuples are written as lists.

    Raises:
        TypeError: it is something else.
    """
    return ormsgpack.packb(value)


def decode(data: bytes) -> Any:
    """Decode one message; sequences come back as lists.

    What follows it is not looked at: frames and files know their own length.

    Raises:
        MessageFormatError: a tag is unknown, or something is too short or too deep.
    """
    try:
        return ormsgpack.unpackb(data)
    except ValueError as error:
        raise MessageFormatError(f"not a message: {error}") from None
