"""The engine under random schedules: crashes, lost buffers, cuts, pauses, lags, compaction. `make sim` runs more."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.metadata_quorum.raft.engine import RaftEngine
from raftlog.metadata_quorum.raft.guard import Guard
from simulation.raft import simulate


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Voters that crash have much to say."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_random_schedules_keep_every_promise(tmp_path: Path):
    figures = [simulate(seed, tmp_path / "world") for seed in range(60)]

    assert sum(figure.acknowledged for figure in figures) > 1_000
    assert sum(figure.unknown for figure in figures) > 0


def test_one_seed_is_one_history(tmp_path: Path):
    assert simulate(7, tmp_path / "a") == simulate(7, tmp_path / "b")


def first_broken(folder: Path, seeds: int) -> int | None:
    for seed in range(seeds):
        try:
            simulate(seed, folder / "world")
        except Exception:  # noqa: BLE001  (a broken engine breaks in many ways, and each counts)
            return seed
    return None


def test_schedules_find_acks_that_promise_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """S1, S2, S3 as in the unguarded core: acks without a term, for entries that no message has proved to match."""

    def complete(self: Any, message: dict[str, Any]) -> bool:
        message["seq"], message["term"] = self._answering, self._core.term
        return True

    monkeypatch.setattr(Guard, "_complete_ack", complete)
    monkeypatch.setattr(Guard, "_on_next_node_idx", lambda self, node, message: message)

    assert first_broken(tmp_path, 60) is not None


def test_schedules_find_a_journal_that_is_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(RaftEngine, "sync", lambda self: None)

    assert first_broken(tmp_path, 60) is not None


def test_schedules_find_truncation_of_what_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """S3: the core cuts a matching suffix before it adds it again."""
    monkeypatch.setattr(Guard, "_trim", lambda self, message: message)

    assert first_broken(tmp_path, 120) is not None
