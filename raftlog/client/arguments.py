"""Validation of call arguments: topics, partitions, offsets and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from raftlog.errors import ConfigError, InvalidRequestError
from raftlog.model import Offset, TopicPartition

MAX_NAME_LENGTH = 249
MOST = (1 << 63) - 1


def is_whole(value: object, least: int = 0) -> bool:
    """Return whether a value is an int (not a bool) from `least` to 2^63-1."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST


def offset_argument(offset: object) -> Offset:
    """Return a validated offset.

    Raises:
        InvalidRequestError: the value is not an offset.
    """
    if not is_whole(offset):
        raise InvalidRequestError(
            f"offset: expected a whole number from 0, received {offset!r}; "
            "for an end of the log use 'earliest' or 'latest' (Consumer.seek_to)"
        )
    return offset  # type: ignore[return-value]


def partition_argument(partition: Any) -> TopicPartition:
    """Return a validated (topic, partition).

    Raises:
        InvalidRequestError: the value is not such a pair.
    """
    pair = isinstance(partition, tuple) and len(partition) == 2
    if not pair or not isinstance(partition[0], str) or not is_whole(partition[1]):
        raise InvalidRequestError(f"expected (topic, partition) such as ('flights', 0), received {partition!r}")
    return TopicPartition(*partition)


def require_offsets(offsets: object) -> None:
    """Raise if offsets to commit are not a mapping. Keys and values are validated elsewhere.

    Raises:
        InvalidRequestError: `offsets` is not a mapping.
    """
    if not isinstance(offsets, Mapping):
        received = "None" if offsets is None else f"{type(offsets).__name__} {offsets!r:.80}"
        raise InvalidRequestError(f"offsets: expected {{(topic, partition): offset}}, received {received}")


def partitions_option(partitions: Any) -> tuple[int, ...]:
    """Return the validated numbers of an option `partitions`.

    Raises:
        ConfigError: the option is empty, or an item is not a partition's number.
    """
    numbers = tuple(partitions) if isinstance(partitions, Iterable) and not isinstance(partitions, str) else ()
    if not numbers or not all(is_whole(number) for number in numbers):
        raise ConfigError(f"partitions: expected whole numbers from 0, such as [0, 1], received {partitions!r}")
    return numbers


def require_topic_name(topic: object) -> None:
    """Raise if a topic is not a name.

    Raises:
        TypeError: the topic is not a str.
        InvalidRequestError: the topic is empty.
    """
    if not isinstance(topic, str):
        raise TypeError(f"topic: expected a name, received {type(topic).__name__} {topic!r:.80}")
    if not topic:
        raise InvalidRequestError("topic: expected a name, received ''")


def require_id(option: str, value: object) -> None:
    """Raise if a group id or a transactional id does not fit into the path of a URL.

    Raises:
        ConfigError: the id does not fit.
    """
    if not isinstance(value, str) or value in ("", ".", "..") or len(value) > MAX_NAME_LENGTH or not _is_text(value):
        expected = f"1 to {MAX_NAME_LENGTH} printable characters, other than '.' and '..'"
        raise ConfigError(f"{option}: expected {expected}, received {value!r:.80}")


def _is_text(value: str) -> bool:
    return value.isprintable()  # Excludes control characters and lone surrogates.
