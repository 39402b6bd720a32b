"""Members and offsets of a group that others would cover: each fault of them is told."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.crowd import Crowd
from chaos.group_history import GroupHistory
from chaos.groups import PARTITIONS, Group, stalled
from raftlog.model import TopicPartition

LEAVES = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); start(); time.sleep(60)"
FAILS = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(2)); start(); time.sleep(60)"
CRASHES = "start(); sys.exit(1)"


def a_crowd(tmp_path: Path, code: str) -> tuple[Crowd, subprocess.Popen[bytes]]:
    orders: Any = SimpleNamespace(seed=1)
    crowd = Crowd(orders, tmp_path, note=lambda _: None)
    start = f"import signal, sys, time\nstart = lambda: open({str(tmp_path / 'm.jsonl')!r}, 'w').close()\n"
    crowd._alive["m"] = process = subprocess.Popen([sys.executable, "-c", start + code])
    return crowd, process


@pytest.mark.parametrize(
    ("code", "broken"), [(LEAVES, []), (FAILS, ["m exited with 2 after SIGTERM"])], ids=["leaves", "fails"]
)
async def test_a_member_leaves_in_order(code: str, broken: list[str], tmp_path: Path):
    crowd, _ = a_crowd(tmp_path, code)
    await crowd._end("m", signal.SIGTERM)
    assert crowd.broken == broken


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_a_member_that_crashed_before_its_signal_is_told(how: signal.Signals, tmp_path: Path):
    crowd, process = a_crowd(tmp_path, CRASHES)
    process.wait()
    await crowd._end("m", how)
    assert crowd.broken == ["m exited by itself with 1"]


async def test_a_member_that_is_killed_need_not_leave(tmp_path: Path):
    crowd, _ = a_crowd(tmp_path, FAILS)
    await crowd._end("m", signal.SIGKILL)
    assert crowd.broken == []


async def test_an_offset_that_is_no_longer_told_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    cluster: Any = SimpleNamespace(bootstrap=["http://127.0.0.1:1"])
    history = GroupHistory()
    group = Group(cluster, history)
    await group.close()
    answers = [{0: 5, 1: 7}, {0: 6}]

    async def group_offsets(_: str) -> dict[TopicPartition, int]:
        return {TopicPartition("chaos", number): offset for number, offset in answers.pop(0).items()}

    admin: Any = SimpleNamespace(group_offsets=group_offsets)
    monkeypatch.setattr(group, "_admin", admin)
    await group.look()
    await group.look()

    seen = [(sighting.partition, sighting.offset) for sighting in history.sightings]
    assert seen == [(0, 5), (1, 7), (0, 6), (1, 0)]
    assert group.committed == {0: 6, 1: 0}


def test_every_partition_must_be_written_in_every_round():
    before = dict.fromkeys(range(PARTITIONS), 5)
    assert stalled(before, dict.fromkeys(range(PARTITIONS), 6)) == []
    assert stalled(before, dict.fromkeys(range(PARTITIONS), 6) | {2: 5}) == [2]
    assert stalled({}, {0: 1}) == list(range(1, PARTITIONS))
