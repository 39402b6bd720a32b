"""Honest clients under attack: what fails or hangs has waited forever, and silence proves nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chaos import strangers
from chaos.history import Acks, History, Outcome, Send
from chaos.site import BrokenPromiseError
from chaos.strangers import FOREVER_US, require_looks, waits_us
from chaos.workload import CRASHED

MS = 1_000_000


def sent(outcome: Outcome, *, ms: int = 3, acks: Acks = "all", error: str = "", at_ns: int = 0) -> Send:
    return Send(
        process="p",
        partition=0,
        value="v",
        invoked_ns=at_ns,
        completed_ns=at_ns + ms * MS,
        outcome=outcome,
        acks=acks,
        error=error,
    )


def test_what_is_not_acknowledged_has_waited_forever():
    sends = [sent("ok"), sent("fail"), sent("info", error="timed out"), sent("ok", acks="1"), sent("fail", acks="0")]
    assert waits_us(sends) == [3_000, FOREVER_US, FOREVER_US]


def test_a_client_that_crashed_waited_while_it_lived():
    assert waits_us([sent("info", ms=7, error=CRASHED)]) == [7_000]


async def measured(monkeypatch: pytest.MonkeyPatch, outcomes: list[Outcome], *, pending: int = 0) -> int:
    """Measure sends that were all begun at the same time, of which so many stay in flight."""
    clock = SimpleNamespace(monotonic_ns=lambda: 0, monotonic=iter(range(1_000)).__next__)
    monkeypatch.setattr(strangers, "time", clock)
    run: Any = SimpleNamespace(
        history=History(sends=[sent(outcome) for outcome in outcomes]),
        workload=SimpleNamespace(acknowledged=SimpleNamespace(pending=lambda *_: pending)),
    )
    return await strangers._latency_p99(run, 0)


async def test_the_p99_of_healthy_sends(monkeypatch: pytest.MonkeyPatch):
    assert await measured(monkeypatch, ["ok"] * 200) == 3_000
    assert await measured(monkeypatch, [*["ok"] * 999, "fail"]) == 3_000


async def test_too_many_failures_have_no_p99(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(BrokenPromiseError, match="too many failed"):
        await measured(monkeypatch, [*["ok"] * 200, *["fail"] * 10])


async def test_sends_that_hang_count(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(BrokenPromiseError, match="10 are pending"):
        await measured(monkeypatch, ["ok"] * 200, pending=10)


async def test_few_acknowledgements_prove_nothing(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(BrokenPromiseError, match="only 50 records"):
        await measured(monkeypatch, ["ok"] * 50)


def test_few_answered_looks_prove_nothing():
    require_looks(50, 30)
    with pytest.raises(BrokenPromiseError, match="only 5 looks"):
        require_looks(5, 30)
