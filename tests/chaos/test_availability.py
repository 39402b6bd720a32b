"""After a fault: each kind of client is served, the last replica shows its records, readers read on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from chaos import stories
from chaos.acknowledgements import Acknowledgements
from chaos.client_kinds import ClientKind
from chaos.history import Read, Send
from chaos.readers import unread
from chaos.replica_stories import RECENT_NS, missing
from chaos.stories import longest_gap

LIBRARY, PLAIN, WEAK = ClientKind(), ClientKind(idempotent=False), ClientKind(acks="1")
S = 1_000_000_000


def sent(value: str, offset: int, *, at_s: float = 0.0, partition: int = 0, idempotent: bool = True) -> Send:
    at = int(at_s * S)
    return Send(
        process="p",
        partition=partition,
        value=value,
        invoked_ns=at,
        completed_ns=at,
        outcome="ok",
        offset=offset,
        idempotent=idempotent,
    )


def read(offset: int, value: str = "", *, partition: int = 0, process: str = "tail-1/0") -> Read:
    return Read(process=process, partition=partition, offset=offset, value=value, completed_ns=0)


ALONE_NS = 10 * S
OLD, NEW = 1.0, 9.5


def test_the_last_replica_shows_everything_or_all_but_the_newest():
    acknowledged = [sent("a", 0, at_s=OLD), sent("b", 1, at_s=NEW)]

    assert missing(acknowledged, [read(0, "a"), read(1, "b")], ALONE_NS) == ([], 0)
    assert missing(acknowledged, [read(0, "a")], ALONE_NS) == ([], 1)
    assert RECENT_NS == S


def test_the_last_replica_lacks_an_older_record():
    old, older = sent("b", 1, at_s=OLD), sent("a", 0, at_s=OLD)

    assert missing([older, old], [read(0, "a")], ALONE_NS) == ([old], 0)


def test_a_partition_that_shows_nothing_lacks_its_older_records():
    here, there = sent("a", 0, at_s=OLD), sent("b", 0, at_s=OLD, partition=1)

    assert missing([here, there], [read(0, "a")], ALONE_NS) == ([there], 0)


def test_a_new_record_below_what_is_read_is_lost():
    new = sent("b", 1, at_s=NEW)
    assert missing([new], [read(2, "c")], ALONE_NS) == ([new], 0)


def to(*kinds: ClientKind) -> Acknowledgements:
    return Acknowledgements(kinds=kinds, partitions=2)


def acknowledge(acknowledged: Acknowledgements, kind: ClientKind, partition: int) -> None:
    invoked_ns = acknowledged.begin(kind, "v")
    acknowledged.end(kind, replace(sent("v", 0, partition=partition), invoked_ns=invoked_ns, acks=kind.acks))


async def test_each_kind_of_client_must_be_served_again():
    acknowledged = to(LIBRARY, LIBRARY, PLAIN, WEAK)
    acknowledge(acknowledged, PLAIN, 0)  # Before: it does not count.
    waiting = asyncio.create_task(acknowledged.to_each_kind(within_s=0.05))
    await asyncio.sleep(0)
    acknowledge(acknowledged, LIBRARY, 0)
    acknowledge(acknowledged, WEAK, 0)
    with pytest.raises(TimeoutError, match=r"nothing was acknowledged to ClientKind\(acks='all', idempotent=False"):
        await waiting

    waiting = asyncio.create_task(acknowledged.to_each_kind(within_s=10))
    await asyncio.sleep(0)
    for kind in (LIBRARY, PLAIN):
        acknowledge(acknowledged, kind, 0)
    await waiting


async def test_every_partition_must_acknowledge_again_to_whomever():
    acknowledged = to(LIBRARY, PLAIN)
    waiting = asyncio.create_task(acknowledged.everywhere(within_s=10))
    await asyncio.sleep(0)
    acknowledge(acknowledged, LIBRARY, 0)
    await asyncio.sleep(0)
    assert not waiting.done()
    acknowledge(acknowledged, PLAIN, 1)
    await waiting


def test_a_send_is_pending_until_it_has_an_outcome():
    acknowledged = to(LIBRARY, WEAK)
    invoked_ns = acknowledged.begin(LIBRARY, "a")
    acknowledged.begin(WEAK, "b")

    assert acknowledged.pending(invoked_ns, invoked_ns) == 1
    assert acknowledged.pending(invoked_ns + 1, invoked_ns + S) == 0
    acknowledged.end(LIBRARY, replace(sent("a", -1), outcome="info"))
    assert acknowledged.pending(invoked_ns, invoked_ns) == 0


def test_a_kind_of_client_that_is_not_served_makes_a_gap():
    steady = [sent(f"{n}", n, at_s=n / 10, partition=n % 2) for n in range(50)]
    plain = [sent(f"p{n}", n, at_s=n / 10, partition=n % 2, idempotent=False) for n in range(20)]

    def of(sends: list[Send]) -> tuple[str, float]:
        gap = longest_gap(sends, 2, (LIBRARY, PLAIN, WEAK), 0, 5 * S)
        return gap.of, round(gap.seconds, 1)

    assert of([*steady, *plain]) == ("the plain HTTP client", 3.1)
    healthy = [*steady, *(sent(f"q{n}", n, at_s=n / 10, idempotent=False) for n in range(50))]
    assert of(healthy)[1] == 0.2
    assert of([send for send in healthy if send.partition == 0 or send.completed_ns < S])[0] == "partition 1"


def test_a_tail_has_read_to_the_end_in_whichever_life():
    reads = [read(0), read(1, process="tail-1/3"), read(4, partition=1), read(7, process="final")]

    assert unread(reads, {0: 2, 1: 5, 2: 0}, ["tail-1"]) == []


def test_a_tail_that_stopped_is_named():
    assert unread([read(0)], {0: 2}, ["tail-1", "tail-kafka"]) == [
        "tail-1 has read partition 0 to 1 of 2",
        "tail-kafka has read partition 0 to 0 of 2",
    ]


def killed_apart(monkeypatch: pytest.MonkeyPatch, *apart_ms: float) -> SimpleNamespace:
    """Return a run whose pairs of processes are killed that many milliseconds apart, one after another."""
    left = list(apart_ms)

    async def fail_over(run: SimpleNamespace, target: str) -> float:
        assert target == "leader and controller"
        return left.pop(0)

    monkeypatch.setattr(stories, "_fail_over", fail_over)
    return SimpleNamespace(figures={}, left=left)


async def test_a_pair_that_was_not_killed_together_is_killed_again(monkeypatch):
    run = killed_apart(monkeypatch, 10.92, 0.4, 7.0)

    await stories._fail_over_both(run)

    assert run.figures == {stories.APART: 0.4}
    assert run.left == [7.0]


async def test_a_machine_that_never_kills_two_together_has_not_tried_the_promise(monkeypatch):
    run = killed_apart(monkeypatch, 11.0, 12.0, 13.0, 0.1)

    with pytest.raises(TimeoutError, match="could not kill two processes within 10 ms, 3 times"):
        await stories._fail_over_both(run)
    assert run.left == [0.1]
