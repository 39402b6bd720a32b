"""The setting `flush` changes while an append waits for a sync."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from replica_support import Solo
from test_damage_with_syncs import SlowSync, until


@pytest.mark.parametrize("acks", [-1, 1])
async def test_an_append_that_waits_for_its_sync_returns_when_the_topic_needs_none_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acks: int
):
    """The high watermark stopped until the next append."""
    solo, slow = Solo(tmp_path, flush="batch"), SlowSync(monkeypatch)
    appending = asyncio.create_task(solo.append("x", acks=acks))
    await until(lambda: slow.began == 1)
    solo.follow(2, 3)
    solo.replica.apply(replace(solo.replica.assignment, configs={"flush": "os"}))
    async with asyncio.timeout(2):
        await appending  # Records in the page cache count at once.
    assert solo.replica.high_watermark == 1
    slow.go.set()
    await solo.close()


async def test_a_sync_that_ends_after_the_change_takes_no_record_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    solo, slow = Solo(tmp_path, flush="batch"), SlowSync(monkeypatch)
    await solo.append("x", acks=0)
    await until(lambda: slow.began == 1)
    solo.replica.apply(replace(solo.replica.assignment, configs={"flush": "os"}))
    await solo.append("y", acks=1)
    solo.follow(2, 3)
    slow.go.set()
    await until(lambda: solo.replica.log.durable_end_offset == 2 or not solo.tasks._tasks)
    assert solo.replica.high_watermark == 2
    await solo.close()


async def test_a_topic_that_is_to_be_synced_from_now_on_waits_for_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solo = Solo(tmp_path, flush="os")
    await solo.append("x", acks=1)
    slow = SlowSync(monkeypatch)
    solo.replica.apply(replace(solo.replica.assignment, configs={"flush": "batch"}))
    appending = asyncio.create_task(solo.append("y", acks=-1))
    await until(lambda: slow.began == 1)
    solo.follow(2, 3)
    assert solo.replica.high_watermark == 1
    assert not appending.done()
    slow.go.set()
    await appending
    assert solo.replica.high_watermark == 2
    await solo.close()
