"""Figures of a node's process: raftlog_gc_seconds_total, raftlog_gc_collections_total, memory, files, threads."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from raftlog.serving import node_metrics as module
from raftlog.serving.loop_watch import LoopWatch
from raftlog.serving.node_metrics import FromThread, NodeMetrics


@pytest.fixture
async def node() -> AsyncIterator[NodeMetrics]:
    node = NodeMetrics(LoopWatch())
    node.start()
    yield node
    await node.close()


async def values(node: NodeMetrics) -> dict[str, float]:
    text = (await node.scrapes.page()).decode()
    return {
        sample.name + "".join(f"/{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_the_process_is_measured(node: NodeMetrics):
    found = await values(node)

    assert 5e6 < found["process_resident_memory_bytes"] < 5e10
    assert 3 <= found["process_open_fds"] < found["process_max_fds"]
    assert found["raftlog_threads"] >= threading.active_count()
    assert time.time() - 36_000 < found["process_start_time_seconds"] <= time.time() + 1
    assert 0 < found["process_cpu_seconds_total"] <= time.process_time() + 0.1
    assert found["raftlog_asyncio_tasks"] >= 1


async def test_the_loops_lag_is_shown(node: NodeMetrics):
    node._watch.stalls = 3

    assert (await values(node))["raftlog_event_loop_stalls_total"] == 3


async def test_garbage_collections_are_counted_and_timed(node: NodeMetrics):
    before = await values(node)
    gc.collect()
    gc.collect(0)
    after = await values(node)

    assert after["raftlog_gc_collections_total/2"] >= before["raftlog_gc_collections_total/2"] + 1
    assert after["raftlog_gc_collections_total/0"] >= before["raftlog_gc_collections_total/0"] + 1
    assert after["raftlog_gc_seconds_total"] > before["raftlog_gc_seconds_total"]


async def test_a_closed_node_counts_no_collections():
    before = list(gc.callbacks)
    node = NodeMetrics(LoopWatch())
    node.start()
    assert len(gc.callbacks) == len(before) + 1
    await node.close()

    assert gc.callbacks == before


async def test_a_disk_that_hangs_takes_one_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_READ_TIMEOUT_S", 0.02)
    answers, hangs, reads = threading.Event(), threading.Event(), []

    def read() -> int:
        reads.append(1)
        hangs.set()
        answers.wait(20)
        return 7

    disk = FromThread(read)
    assert [await disk.read() for _ in range(5)] == [None] * 5
    assert hangs.is_set()
    assert len(reads) == 1
    answers.set()
    monkeypatch.setattr(module, "_READ_TIMEOUT_S", 20)
    assert await disk.read() == 7


async def test_a_disk_that_fails_has_no_figures():
    def read() -> int:
        raise OSError("gone")

    disk = FromThread(read)
    assert (await disk.read(), await disk.read()) == (None, None)
    await asyncio.sleep(0)
