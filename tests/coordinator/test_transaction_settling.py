"""A set's commit is answered once readers can see it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from transaction_support import Shard

from raftlog.coordinator.transaction import markers
from raftlog.coordinator.transaction.markers import MarkerWriter


class Runtime:
    """The one shard of a broker."""

    def __init__(self, shard: Shard) -> None:
        self.active = {0: shard.state}


def writer(shard: Shard) -> MarkerWriter:
    nobody = cast("Any", None)
    runtime = cast("Any", Runtime(shard))
    return MarkerWriter(runtime, shard.coordinator, image=nobody, catch_up=nobody, send=nobody)


@pytest.fixture
def shard() -> Shard:
    """A set whose commit is decided, and whose markers are not written; and a set of another owner."""
    shard = Shard()
    for number, name in enumerate(("s::0.0", "s::1.0", "other")):
        shard.join(shard.init(name), number, name=name)
    shard.end_set("s::0.0", "s::1.0")
    known = shard.state.by_id["other"]
    shard.end((known.producer_id, known.producer_epoch), name="other")
    return shard


async def test_it_waits_for_every_marker_of_the_set_and_for_no_other(shard):
    waiting = asyncio.ensure_future(writer(shard).settled("s"))
    await asyncio.sleep(0.01)
    shard.complete("s::0.0")
    await asyncio.sleep(0.01)
    assert not waiting.done()

    shard.complete("s::1.0")
    await asyncio.wait_for(waiting, 5)
    assert list(shard.state.ending) == ["other"]


async def test_it_does_not_wait_forever_for_a_partition_without_a_leader(shard, monkeypatch):
    monkeypatch.setattr(markers, "SETTLE_S", 0.01)

    await asyncio.wait_for(writer(shard).settled("s"), 5)
    assert list(shard.state.ending) == ["s::0.0", "s::1.0", "other"]
