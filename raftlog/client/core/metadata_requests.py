"""Requests for the metadata of many topics, each short enough for a URL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MAX_QUERY_BYTES = 6_000
"""Servers accept URLs of about 8 KB."""


def of_one_request(topics: Iterable[str]) -> Iterator[list[str]]:
    """Split names of topics into lists that fit a URL each."""
    some, size = list[str](), 0
    for topic in topics:
        if some and size + len(topic) > MAX_QUERY_BYTES:
            yield some
            some, size = [], 0
        some.append(topic)
        size += len(topic) + len("&topic=")
    yield some
