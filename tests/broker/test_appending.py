"""What a leader refuses before it looks at its log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.broker.appending import append_batch
from raftlog.errors import RetriableError
from raftlog.model import ACKS_ALL
from raftlog.record import NewRecord, build_batch
from raftlog.wire.errors import WireError
from raftlog.wire.metadata import SHORT_BATCHES

SHORT = bytes(build_batch([NewRecord(b"v", timestamp=1)], short=True))


class AppendedError(Exception):
    """Raised in place of an append."""


@pytest.mark.parametrize("batch", [SHORT, b"", bytes(21), bytes(64)], ids=["short", "empty", "cut", "zeros"])
async def test_short_batches_are_refused_while_earlier_followers_could_not_store_them(batch: bytes):
    def append(*_: object, **__: object) -> None:
        raise AppendedError

    replica = SimpleNamespace(append=append, assignment=SimpleNamespace(topic_id=""))
    for level in (SHORT_BATCHES - 1, SHORT_BATCHES):
        context: Any = SimpleNamespace(image=SimpleNamespace(feature_level=level), leader=lambda *_: replica)
        expected = RetriableError if level < SHORT_BATCHES and batch == SHORT else AppendedError
        with pytest.raises(expected) as raised:
            await append_batch(context, "topic", 0, batch, ACKS_ALL, 1_000)
        if isinstance(raised.value, RetriableError):
            assert WireError.of(raised.value).to_error().retriable  # What the producer gets.
