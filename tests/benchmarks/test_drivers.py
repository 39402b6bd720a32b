"""What drivers share: how long they send, and what they measure of a real cluster."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.drivers.shape import Chunks
from benchmarks.loads import Load, broker_pids, loaded, memory_mb
from benchmarks.memory import touched
from benchmarks.report import Effort


def test_sending_ends_with_the_volume():
    chunks = Chunks([[b"12345", b"67890"], [b"abcde", b"fghij"]], seconds=60, max_bytes=25)
    assert list(chunks) == [[b"12345", b"67890"], [b"abcde", b"fghij"], [b"12345", b"67890"]]


def test_sending_ends_with_the_time():
    assert list(Chunks([[b"12345"]], seconds=0, max_bytes=25)) == []


def test_several_senders_draw_from_the_same_chunks():
    chunks = Chunks([[b"a"], [b"b"]], seconds=60, max_bytes=3)
    assert [next(chunks), next(chunks), list(chunks)] == [[b"a"], [b"b"], [[b"a"]]]


def test_memory_for_the_page_cache_is_really_there():
    size = 64 << 20
    before = memory_mb([os.getpid()])[0]
    memory = touched(size)
    assert memory_mb([os.getpid()])[0] - before > 60
    memory.close()
    assert memory_mb([os.getpid()])[0] - before < 4


def test_no_more_than_half_of_the_free_memory_is_touched(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sysconf", {"SC_AVPHYS_PAGES": 2_000}.__getitem__)
    assert len(touched(1 << 40)) == 1_000 * mmap.PAGESIZE


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    root = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(root))
        patch.chdir(tmp_path_factory.mktemp("load"))
        with loaded(Effort(quick=True)) as running:
            yield running


@pytest.mark.cluster
@pytest.mark.parametrize("options", [{}, {"each": True}, {"clients": 3}])
def test_acknowledged_records_are_counted(load: Load, options: dict[str, object]):
    result = load.run(work="produce", seconds=0.3, warmup_s=0.1, max_bytes=16 << 20, options=options)
    assert result["records"] > 0
    assert result["records_per_s"] == pytest.approx(result["records"] / result["seconds"], rel=0.01)
    assert result["server_cpu_s"] >= 0
    assert result["client_cpu_s"] > 0


@pytest.mark.cluster
def test_latency_has_a_sample_for_each_record(load: Load):
    result = load.run(work="latency", rate=100, seconds=0.5, warmup_s=0.1)
    assert result["records"] == 50
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["max_ms"]


@pytest.mark.cluster
@pytest.mark.parametrize("arrow", [False, True])
def test_what_was_filled_is_read(load: Load, arrow: bool):
    topic = f"filled-{arrow}"
    size = 100 << 10  # Several fetches of 8 MB: the first one is not counted.
    filled = load.run(work="fill", topic=topic, seconds=60, warmup_s=0.0, record_bytes=4096, max_bytes=128 * size)
    reading = {"work": "consume", "topic": topic, "seconds": 60.0, "record_bytes": 4096, "records": filled["records"]}
    result = load.run(**reading, options={"arrow": arrow})
    assert 0 < result["records"] <= filled["records"]


@pytest.mark.cluster
def test_brokers_have_memory(load: Load):
    pids = broker_pids(load.cluster)
    assert len(pids) == 3
    own, most = memory_mb(pids, "Pss"), memory_mb(pids, "VmHWM")
    assert all(0 < mine <= peak for mine, peak in zip(own, most, strict=True))
