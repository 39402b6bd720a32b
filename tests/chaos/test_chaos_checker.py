"""Forged histories: the checker must flag each anomaly, and nothing in an honest history."""

from __future__ import annotations

import pytest

from chaos.checker import check
from chaos.history import History, Outcome, Read, Send


def send(value: str, offset: int = -1, *, at: int = 0, took: int = 1, outcome: Outcome = "ok") -> Send:
    return Send(
        process="p1", partition=0, value=value, invoked_ns=at, completed_ns=at + took, outcome=outcome, offset=offset
    )


def reads(*values: str, process: str = "final", start: int = 0) -> list[Read]:
    return [
        Read(process=process, partition=0, offset=start + i, value=value, completed_ns=100 + i)
        for i, value in enumerate(values)
    ]


def honest() -> History:
    return History(
        sends=[
            send("a", 0, at=0),
            send("b", 1, at=10),
            send("unknown", at=20, outcome="info"),
            send("refused", at=30, outcome="fail"),
            send("c", 3, at=40),
        ],
        reads=reads("a", "b", process="tail"),
        final_reads=reads("a", "b", "unknown", "c"),
    )


def test_an_honest_history_passes_with_its_figures():
    verdict = check(honest())

    assert verdict.ok
    assert verdict.anomalies == []
    assert (verdict.acknowledged, verdict.unknown, verdict.failed, verdict.read) == (3, 1, 1, 4)


def test_an_unknown_send_may_be_absent():
    history = honest()
    history.sends[-1] = send("c", 2, at=40)
    history.final_reads = reads("a", "b", "c")

    assert check(history).ok


def test_a_missing_tail_is_lost():
    history = honest()
    history.final_reads.pop()

    verdict = check(history)

    assert not verdict.ok
    assert [(a.kind, a.detail) for a in verdict.anomalies] == [("lost", "c was acknowledged at offset 3 and is gone")]


def test_a_value_read_before_and_gone_is_lost_even_if_never_acknowledged():
    history = honest()
    history.reads = reads("a", "b", "unknown", process="tail")
    history.sends[-1] = send("c", 2, at=40)
    history.final_reads = reads("a", "b", "c")

    assert check(history).count("lost") == 1


def test_a_value_at_two_offsets_is_a_duplicate():
    history = honest()
    history.final_reads = reads("a", "b", "unknown", "c", "b")

    assert [a.detail for a in check(history).anomalies] == ["b is at [(0, 1), (0, 4)]"]


def test_a_value_nobody_sent_is_a_phantom():
    history = honest()
    history.final_reads = reads("a", "b", "unknown", "c", "ghost")

    assert [a.kind for a in check(history).anomalies] == ["phantom"]


def test_a_failed_send_that_is_read_is_an_aborted_read():
    history = honest()
    history.final_reads = reads("a", "b", "unknown", "c", "refused")

    assert [a.kind for a in check(history).anomalies] == ["aborted read"]


def test_an_offset_with_two_values_is_inconsistent():
    history = honest()
    history.reads = reads("a", "unknown", process="tail")

    kinds = {anomaly.kind for anomaly in check(history).anomalies}

    assert "inconsistent offset" in kinds


def test_a_later_send_with_a_lower_offset_is_reordered():
    history = honest()
    history.sends[0], history.sends[1] = send("b", 1, at=0), send("a", 0, at=10)

    assert [a.kind for a in check(history).anomalies] == ["reordered"]


def test_concurrent_sends_may_land_in_either_order():
    history = honest()
    history.sends[0], history.sends[1] = send("b", 1, at=0, took=20), send("a", 0, at=10)

    assert check(history).ok


def test_a_reader_that_goes_back_is_reordered():
    history = honest()
    history.reads = [*reads("a", "b", process="tail"), *reads("a", process="tail")]

    assert [a.kind for a in check(history).anomalies] == ["reordered"]


def test_a_reader_that_jumps_over_a_record_skips():
    history = honest()
    history.reads = [*reads("a", process="tail"), *reads("unknown", process="tail", start=2)]

    assert [a.kind for a in check(history).anomalies] == ["skip"]


@pytest.mark.parametrize("history", [History(), History(sends=[send("a", 0)]), History(final_reads=reads())])
def test_a_history_that_proves_nothing_is_invalid(history: History):
    verdict = check(history)

    assert not verdict.valid
    assert not verdict.ok
