"""Forged histories of transactions, one for each anomaly: all of them must be flagged, and a sound one not."""

from __future__ import annotations

import pytest

from chaos.transactions import CommittedRead, Transaction, TransactionHistory, check_transactions


def wrote(process: str, outcome: str, *values: str, number: int = 0) -> Transaction:
    return Transaction(process=process, number=number, writes=[(0, value) for value in values], outcome=outcome)  # type: ignore[arg-type]


def read(*values: str, process: str = "final") -> list[CommittedRead]:
    return [CommittedRead(process=process, partition=0, offset=n, value=value) for n, value in enumerate(values)]


SOUND = [
    wrote("a/0", "ok", "x", "y"),
    wrote("a/0", "fail", "no"),
    wrote("a/1", "info", "p", "q"),
    wrote("b/0", "info", "z"),
]


def kinds(
    transactions: list[Transaction], final: list[CommittedRead], reads: list[CommittedRead] | None = None
) -> list[str]:
    history = TransactionHistory(transactions=transactions, final_reads=final, reads=reads or [])
    return sorted({anomaly.kind for anomaly in check_transactions(history)})


def test_a_sound_history_passes():
    assert kinds(SOUND, read("x", "y", "p", "q"), read("x", process="tail")) == []
    assert kinds(SOUND, read("x", "y")) == []


@pytest.mark.parametrize(
    ("final", "expected"),
    [
        (read("x"), ["lost"]),
        (read("x", "y", "no"), ["aborted read"]),
        (read("x", "y", "p"), ["torn transaction"]),
        (read("x", "y", "who"), ["phantom"]),
        (read("x", "y", "x"), ["duplicate"]),
        (read("p", "q", "x", "y"), ["zombie"]),
        ([], ["invalid"]),
    ],
)
def test_each_anomaly_is_flagged(final: list[CommittedRead], expected: list[str]):
    assert kinds(SOUND, final) == expected


def test_what_was_once_read_as_committed_stays():
    assert kinds(SOUND, read("x", "y"), read("p", process="tail")) == ["lost"]
    assert kinds([wrote("a/0", "info", "x")], read("x")) == ["invalid"]
