"""Damage in a voter's files while it runs is repaired: its next start finds everything."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from quorum_support import Cluster, flip, write

from raftlog.errors import StorageError
from raftlog.metadata_quorum.raft.frames import MAGIC
from raftlog.metadata_quorum.raft.journal import RaftJournal
from raftlog.metadata_quorum.raft.scrub import JOURNAL, SNAPSHOT, find_corruption

ENTRIES = 120


async def until_sound(cluster: Cluster, node_id: int) -> None:
    async with asyncio.timeout(10):
        while find_corruption(cluster.folder / str(node_id)):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("names", "at"), [([JOURNAL], 12), ([JOURNAL], 200), ([SNAPSHOT], -5), ([JOURNAL, SNAPSHOT], 60)]
)
async def test_a_journal_and_a_snapshot_that_rot_are_whole_when_the_voter_starts_anew(
    tmp_path: Path, free_ports: Callable[[int], list[int]], caplog: pytest.LogCaptureFixture, names: list[str], at: int
):
    # All voters share one process. If it is paused for longer than the timeout, another leader is elected.
    async with Cluster(tmp_path, free_ports(3), snapshot_min_entries=50, election_s=(2.0, 3.0)) as cluster:
        await write(cluster, 0, ENTRIES)
        await cluster.close(1)
        cluster.scrub_interval_ms = 100
        await cluster.start(1)
        await write(cluster, ENTRIES, 10)
        for name in names:
            flip(tmp_path / "1" / name, at)
        corruption = find_corruption(tmp_path / "1")
        assert (bool(corruption.journal), bool(corruption.snapshot)) == (JOURNAL in names, SNAPSHOT in names)
        with caplog.at_level(logging.ERROR):
            await until_sound(cluster, 1)
        assert "was damaged on disk, and was rewritten from memory" in caplog.text
        await write(cluster, ENTRIES + 10, 10)

        await cluster.close(1)
        cluster.scrub_interval_ms = -1
        await cluster.start(1)
        await cluster.all_applied(ENTRIES + 20)
        assert cluster.machines[1].entries == cluster.machines[2].entries
        await write(cluster, ENTRIES + 20, 5)
        assert not cluster.fatal


async def test_without_it_a_voter_with_a_rotten_journal_does_not_start(
    tmp_path: Path, free_ports: Callable[[int], list[int]]
):
    async with Cluster(tmp_path, free_ports(3)) as cluster:
        await write(cluster, 0, 20)
        flip(tmp_path / "1" / JOURNAL, 200)
        await cluster.close(1)
        with pytest.raises(StorageError, match="is damaged at byte"):
            await cluster.start(1)
        del cluster.quorums[1]


def test_files_that_are_not_there_yet_have_not_rotted_and_unreadable_ones_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert find_corruption(tmp_path).journal
    (tmp_path / JOURNAL).write_bytes(MAGIC)
    assert "written together with the file" in find_corruption(tmp_path).journal
    (tmp_path / JOURNAL).unlink()
    RaftJournal(tmp_path / JOURNAL).close()
    assert not find_corruption(tmp_path)
    (tmp_path / SNAPSHOT).write_bytes(b"nothing of ours")
    assert "not a snapshot" in find_corruption(tmp_path).snapshot

    def unreadable(path: Path) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "read_bytes", unreadable)
    corruption = find_corruption(tmp_path)
    assert "cannot read" in corruption.journal
    assert "Input/output error" in corruption.snapshot
