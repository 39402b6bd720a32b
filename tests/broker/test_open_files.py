"""A node takes all the open files that it can have, and leaves room for sockets."""

from __future__ import annotations

import logging
import resource

import pytest

from raftlog.broker.open_files import affordable_segments, raise_limit


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Limits of open files as the system has them, last one valid."""
    made = [(1_024, 4_096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: made[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: made.append(pair))
    return made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1_024, 4_096), (4_096, 4_096)),
        ((4_096, 4_096), (4_096, 4_096)),
        ((1_024, resource.RLIM_INFINITY), (1 << 20, resource.RLIM_INFINITY)),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)),
    ],
)
def test_the_soft_limit_becomes_the_hard_one(limits: list[tuple[int, int]], before, after):
    limits[:] = [before]
    raise_limit()
    assert limits[-1] == after


def test_a_limit_that_cannot_be_raised_is_said(limits, monkeypatch: pytest.MonkeyPatch, caplog):
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    with caplog.at_level(logging.WARNING):
        raise_limit()
    assert "stays at 1024" in caplog.text


@pytest.mark.parametrize(("wanted", "kept"), [(1_000, 512), (512, 512), (100, 100)])
def test_segments_leave_half_of_the_files_to_sockets(limits, caplog, wanted: int, kept: int):
    assert affordable_segments(wanted) == kept
    assert ("it keeps 512 segments open" in caplog.text) is (wanted > kept)
    limits.append((resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert affordable_segments(wanted) == wanted
