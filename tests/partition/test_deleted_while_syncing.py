"""A partition deleted while its log is being synced is no disk failure: the broker keeps running."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from replica_support import Solo

from raftlog.partition.storage.log_files import LogClosedError


@pytest.mark.parametrize("checked", [False, True])
async def test_a_sync_that_comes_after_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: bool
):
    solo = Solo(tmp_path / "log")
    log, fsync, closed = solo.replica.log, solo.replica.log.fsync, threading.Event()
    outcomes: list[BaseException] = []

    def late_fsync() -> int:
        closed.wait(10)
        try:
            if not checked:
                return fsync()
            monkeypatch.setattr(log, "_require_sound", lambda: None)  # As if the log had been closed just after it.
            monkeypatch.setattr(log._syncer, "sync", _bad_file)
            return fsync()
        except BaseException as error:
            outcomes.append(error)
            raise

    monkeypatch.setattr(log, "fsync", late_fsync)
    solo.replica._commit.request()
    await asyncio.sleep(0)

    solo.replica.close()
    closed.set()
    syncing = solo.replica._commit._running
    assert syncing is not None
    await syncing
    await solo.tasks.close()

    assert solo.failures == []
    assert [type(error) for error in outcomes] == [LogClosedError]


def _bad_file(_: object) -> int:
    raise OSError(9, "Bad file descriptor")
