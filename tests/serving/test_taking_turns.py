"""Long work in slices, and objects that the garbage collector ignores."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress

import pytest

from raftlog.runtime import freezing_objects, in_slices


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    enabled = gc.isenabled()
    yield
    gc.unfreeze()
    (gc.enable if enabled else gc.disable)()


async def test_others_get_their_turns_amid_long_work():
    turns, seen = [], []

    async def other() -> None:
        while True:
            turns.append(len(seen))
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    source = list(range(10))
    async for item in in_slices(source, 4):
        seen.append(item)
        source.clear()  # What is walked over may change meanwhile.
    task.cancel()
    assert seen == list(range(10))
    assert {4, 8} <= set(turns)


def test_the_collector_is_as_it_was_found():
    gc.enable()
    with suppress(ZeroDivisionError), freezing_objects():
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled()

    gc.disable()  # As in a simulated world: what a collection closes, and when, would be no function of its seed.
    gc.unfreeze()  # What other tests froze may end meanwhile, and would change the count.
    with freezing_objects():
        assert not gc.isenabled()
    assert (gc.isenabled(), gc.get_freeze_count()) == (False, 0)
