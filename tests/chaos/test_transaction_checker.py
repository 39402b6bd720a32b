"""Forged histories of transactions, one for each anomaly: all of them must be flagged, and a sound one not."""

from __future__ import annotations

import pytest

from chaos.transactions import CommittedRead, Transaction, TransactionHistory, check_transactions


def wrote(process: str, outcome: str, *values: str, at: int = 0) -> Transaction:
    return Transaction(
        process=process,
        number=0,
        asked_ns=at,
        begun_ns=at + 1,
        writes=[(0, value) for value in values],
        outcome=outcome,  # type: ignore[arg-type]
    )


def read(*values: str, process: str = "final") -> list[CommittedRead]:
    return [CommittedRead(process=process, partition=0, offset=n, value=value) for n, value in enumerate(values)]


SOUND = [
    wrote("a/0", "ok", "x", "y", at=10),
    wrote("a/0", "fail", "no", at=20),
    wrote("a/1", "info", "p", "q", at=30),
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


def test_a_life_that_asked_early_and_was_answered_late_is_no_zombie():
    late = [wrote("a/0", "ok", "x", at=40), wrote("a/1", "ok", "y", at=30)]
    late[0].asked_ns = 5

    assert kinds(late, read("y", "x")) == []


@pytest.mark.parametrize(
    ("tail", "expected"),
    [(("x", "y"), []), (("x", "q"), ["skip"]), (("y",), ["skip"]), (("x", "x"), ["nonmonotonic poll"])],
)
def test_a_reader_sees_all_that_counts_in_order(tail: tuple[str, ...], expected: list[str]):
    final = read("x", "y", "p", "q")
    places = {one.value: one.offset for one in final}
    seen = [CommittedRead(process="tail", partition=0, offset=places[value], value=value) for value in tail]

    assert kinds(SOUND, final, seen) == expected
