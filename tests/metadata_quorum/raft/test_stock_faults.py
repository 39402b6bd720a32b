"""One scripted schedule for each fault of the stock PySyncObj core: the core fails it, our engine does not.

The names S1-S6, D1 and D2 are those of docs/adr/0004. Each schedule is ordinary weather for a network: what it needs
is lost, late or cut off, never forged.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pysyncobj.pickle
import pysyncobj.syncobj as core_module
import pytest
from stage_support import CHUNK_BYTES, OurVoter, Stage, StockVoter, StoppedError

from raftlog.metadata_quorum.raft import journal, snapshots

Staged = Callable[..., Stage]
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""The stock core leaves files for the garbage collector to close."""


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Staged]:
    """Stages on a clock of their own; the disk's own speed is no part of these schedules."""
    stages: list[Stage] = []

    def build(kind: type[Any], names: str, **options: Any) -> Stage:
        stage = Stage(kind, tmp_path, names, **options)
        stages.append(stage)
        monkeypatch.setattr(core_module, "monotonicTime", lambda: stage.now)
        stage.open()
        return stage

    for function in ("fsync", "fdatasync"):
        monkeypatch.setattr(journal.os, function, lambda _: None)
    monkeypatch.setattr(snapshots, "CHUNK_BYTES", CHUNK_BYTES)
    monkeypatch.setattr(pysyncobj.pickle, "pickle", pickle)  # The stock core cannot do without.
    logging.disable(logging.CRITICAL)
    yield build
    logging.disable(logging.NOTSET)
    for stage in stages:
        stage.close()


def numbered(prefix: str, count: int) -> list[bytes]:
    return [f"{prefix}{i}".encode() for i in range(count)]


def led_by(stage: Stage, name: str) -> Stage:
    """Elect a voter, and let every voter learn and apply its no-op."""
    stage.elect(name)
    stage.beat(name, rounds=3)
    assert stage.voters[name].believes_to_lead()
    return stage


def a_deposed_leader_meets_a_snapshot(stage: Stage) -> list[bytes]:
    """S1: A's five entries reach no voter; B leads on, compacts, and offers A its snapshot."""
    led_by(stage, "A").cut("A")
    mine = numbered("of A ", 5)
    stage.propose("A", *mine)
    stage.tick("A")
    stage.elect("B")
    stage.propose("B", *numbered("of B ", 60))
    stage.beat("B", rounds=6)
    stage.compact("B")
    stage.mend("A", "B", "C")
    for _ in range(4):
        stage.now += 0.2
        stage.tick("B")
        stage.deliver("B", "A", 1)
        stage.tick("A")
        stage.deliver("A", "B")
    stage.beat("B", rounds=8)
    return mine


def test_s1_a_snapshot_message_commits_nothing_that_only_its_receiver_holds(staged: Staged):
    stock = staged(StockVoter, "ABC")
    mine = a_deposed_leader_meets_a_snapshot(stock)
    assert stock.acknowledged >= set(mine)
    assert not set(mine) & set(stock.applied("B"))

    ours = staged(OurVoter, "ABC")
    mine = a_deposed_leader_meets_a_snapshot(ours)
    assert not ours.acknowledged & set(mine)
    assert ours.acknowledged == set(numbered("of B ", 60))
    assert ours.applied("A") == ours.applied("B") == ours.applied("C") == numbered("of B ", 60)


def an_ack_arrives_two_terms_late(stage: Stage) -> None:
    """S2: E's acks of term 1 are held until A leads again in term 3, after term 2 has replaced what they stand for."""
    led_by(stage, "A")
    stage.cut("A")
    stage.mend("A", "E")
    stage.held.add(("E", "A"))
    stage.propose("A", *numbered("replaced ", 6))
    stage.beat("A", rounds=2)
    stage.mend("A", "B", "C", "D", "E")
    stage.held.add(("B", "E"))
    stage.elect("B")
    stage.held.discard(("B", "E"))
    stage.beat("B", rounds=6)
    assert stage.log("E") == stage.log("B")
    stage.cut("B")
    stage.lossy.add(("A", "E"))
    stage.elect("A")
    stage.cut("A")
    stage.mend("A", "C")
    stage.propose("A", b"held by two of five")
    for _ in range(2):
        stage.now += 0.2
        stage.tick("A")
        stage.pump(2)
    stage.tick("A")
    assert not stage.acknowledged
    stage.held.clear()
    stage.deliver("E", "A")
    stage.tick("A")
    assert [name for name in "ABCDE" if stage.log("A")[-1] in stage.log(name)] == ["A", "C"]


def test_s2_an_ack_of_an_earlier_term_commits_nothing(staged: Staged):
    stock = staged(StockVoter, "ABCDE")
    an_ack_arrives_two_terms_late(stock)
    assert stock.acknowledged == {b"held by two of five"}

    ours = staged(OurVoter, "ABCDE")
    an_ack_arrives_two_terms_late(ours)
    assert not ours.acknowledged


def a_batch_arrives_twice(stage: Stage) -> None:
    """S3: two resets send everything twice, and the second time only the first batch gets through before A is gone."""
    led_by(stage, "A").cut("C")
    stage.lossy.add(("A", "B"))
    stage.propose("A", *(payload * 8 for payload in numbered("entry %", 12)))
    for _ in range(2):
        stage.now += 0.2
        stage.tick("A")
    stage.lossy.discard(("A", "B"))
    for _ in range(2):
        stage.now += 0.2
        stage.tick("A")
    stage.deliver("A", "B")
    sent = []
    for _ in range(2):
        stage.deliver("B", "A", 1)
        stage.now += 0.2
        stage.tick("A")
        sent.append(len(stage.links["A", "B"]))
    stage.deliver("A", "B", sent[0])
    stage.deliver("B", "A")
    stage.tick("A")
    stage.deliver("A", "B", 1)
    stage.kill("A")
    stage.mend("B", "C")
    stage.elect("B")
    stage.beat("B", rounds=8)


def test_s3_a_repeated_batch_cuts_nothing_off(staged: Staged):
    stock = staged(StockVoter, "ABC", batch_bytes=200)
    a_batch_arrives_twice(stock)
    assert len(stock.acknowledged) == 12
    assert len(stock.acknowledged - set(stock.applied("C"))) >= 6

    ours = staged(OurVoter, "ABC", batch_bytes=200)
    a_batch_arrives_twice(ours)
    assert len(ours.acknowledged) == 12
    assert ours.acknowledged == set(ours.applied("C")) == set(ours.applied("B"))


def a_crash_between_snapshot_and_trim(stage: Stage) -> list[bytes]:
    """S4: B acknowledged 30 entries that it has yet to apply when it dies with a new snapshot and an untrimmed log."""
    led_by(stage, "A")
    stage.propose("A", *numbered("old ", 10))
    stage.beat("A", rounds=3)
    stage.cut("C")
    kept = numbered("kept ", 30)
    stage.propose("A", *kept)
    for _ in range(2):
        stage.now += 0.2
        stage.tick("A")
    stage.deliver("A", "B")
    stage.voters["B"].forceLogCompaction()
    stage.tick("B")  # The snapshot has its name; the next tick would trim the log.
    stage.deliver("B", "A")
    stage.tick("A")
    assert stage.acknowledged >= set(kept)
    stage.kill("B")
    stage.kill("A")
    stage.start("B")
    stage.tick("B")
    stage.mend("B", "C")
    stage.elect("B")
    stage.beat("B", rounds=6)
    return kept


def test_s4_a_crash_between_snapshot_and_trim_clears_no_log(staged: Staged):
    stock = staged(StockVoter, "ABC")
    kept = a_crash_between_snapshot_and_trim(stock)
    assert not set(kept) & set(stock.applied("C"))

    ours = staged(OurVoter, "ABC")
    kept = a_crash_between_snapshot_and_trim(ours)
    assert ours.applied("C") == ours.applied("B") == [*numbered("old ", 10), *kept]


def a_snapshot_loses_a_chunk(stage: Stage) -> None:
    """S5: a connection breaks with one chunk on it; C, a deposed leader, has a long log of its own."""
    led_by(stage, "C").cut("C")
    stage.propose("C", *numbered("of C ", 100))
    stage.tick("C")
    stage.elect("A")
    stage.propose("A", *numbered("of A ", 40))
    stage.beat("A", rounds=4)
    stage.compact("A")
    stage.cut("A", "B", "C")
    stage.cut("B")
    stage.mend("A", "C")
    stage.send_takes_s = 0.2  # One chunk for each tick.
    lost = False
    for _ in range(40):
        stage.now += 0.2
        stage.tick("A")
        chunk = next((message["serialized"] for message in stage.waiting("A", "C") if message.get("serialized")), None)
        if chunk is not None and not chunk[1] and not lost:
            lost = True
            stage.lose("A", "C")
        stage.pump(2)
    assert lost
    stage.lossy.add(("A", "C"))
    stage.propose("A", b"held by A alone")
    for _ in range(3):
        stage.now += 0.2
        stage.tick("A")


def test_s5_a_snapshot_without_one_of_its_chunks_is_not_acknowledged(staged: Staged):
    stock = staged(StockVoter, "ABC")
    a_snapshot_loses_a_chunk(stock)
    assert b"held by A alone" in stock.acknowledged
    assert stock.log("A")[-1] not in stock.log("B") + stock.log("C")

    ours = staged(OurVoter, "ABC")
    a_snapshot_loses_a_chunk(ours)
    assert b"held by A alone" not in ours.acknowledged


def a_snapshot_does_not_load(stage: Stage, break_loading: Callable[[Any], None]) -> list[tuple[int, int]]:
    """S5: C, a deposed leader with a long log of its own, cannot load A's snapshot. Returns what A and C share."""
    led_by(stage, "C").cut("C")
    stage.propose("C", *numbered("of C ", 100))
    stage.tick("C")
    stage.elect("A")
    stage.propose("A", *numbered("of A ", 40))
    stage.beat("A", rounds=4)
    shared = [entry for entry in stage.log("A") if entry in stage.log("C")]
    stage.compact("A")
    break_loading(stage.voters["C"])
    stage.mend("A", "C")
    for _ in range(20):
        stage.now += 0.2
        stage.tick("A")
        stage.pump(2)
    return shared


def test_s5_a_snapshot_that_does_not_load_is_not_acknowledged(staged: Staged, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: Any) -> None:
        raise ValueError("no memory left")

    def acknowledged_by_c(stage: Stage) -> int:
        matching = stage.voters["A"]._SyncObj__raftMatchIndex
        return next(index for node, index in matching.items() if node.id == "C")

    stock = staged(StockVoter, "ABC")
    shared = a_snapshot_does_not_load(
        stock, lambda voter: monkeypatch.setattr(voter._SyncObj__serializer, "deserialize", fail)
    )
    assert acknowledged_by_c(stock) > shared[-1][0]

    ours = staged(OurVoter, "ABC")
    shared = a_snapshot_does_not_load(ours, lambda voter: monkeypatch.setattr(voter, "load_snapshot", fail))
    assert "cannot load the snapshot" in ours.stopped["C"]
    assert "no memory left" in ours.stopped["C"]
    assert acknowledged_by_c(ours) <= shared[-1][0]


def a_new_leader_has_not_applied_what_it_holds(stage: Stage) -> bool:
    """S6: B holds ten acknowledged entries that it does not know to be committed, and is elected."""
    led_by(stage, "A")
    acknowledged = numbered("entry ", 10)
    stage.propose("A", *acknowledged)
    for _ in range(2):
        stage.now += 0.2
        stage.tick("A")
    stage.pump(2)
    stage.tick("A")
    assert stage.acknowledged == set(acknowledged)
    stage.kill("A")
    stage.elect("B")
    assert stage.voters["B"]._isLeader()
    early = stage.voters["B"].believes_to_lead() and stage.applied("B") != acknowledged
    stage.beat("B", rounds=3)
    assert stage.voters["B"].believes_to_lead()
    assert stage.applied("B") == acknowledged
    return early


def test_s6_nobody_leads_before_its_own_no_op_is_applied(staged: Staged):
    assert a_new_leader_has_not_applied_what_it_holds(staged(StockVoter, "ABC"))
    assert not a_new_leader_has_not_applied_what_it_holds(staged(OurVoter, "ABC"))


def a_callback_raises(stage: Stage) -> list[bytes]:
    """D1: the callback of a proposal raises an exception."""
    led_by(stage, "A")

    def fail(result: Any, reason: int) -> None:
        raise ZeroDivisionError

    stage.voters["A"].propose(b"once", fail)
    for _ in range(5):
        try:
            stage.beat("A")
        except ZeroDivisionError:
            continue
    return stage.applied("A")


def test_d1_a_callback_that_raises_does_not_apply_its_entry_again(staged: Staged):
    assert a_callback_raises(staged(StockVoter, "ABC")) == [b"once", b"once"]
    assert a_callback_raises(staged(OurVoter, "ABC")) == [b"once"]


def the_state_machine_raises(stage: Stage) -> list[str]:
    """D2: one entry that no state machine can apply. Returns the reasons of voters that stopped."""
    led_by(stage, "A")
    reasons = []
    stage.propose("A", b"poison", b"after it")
    for _ in range(10):
        stage.now += 0.2
        for name in list(stage.voters):
            try:
                stage.tick([name])
            except StoppedError as stopped:
                reasons.append(str(stopped))
                stage.kill(name)
            except ValueError:
                continue
        stage.pump(2)
    return reasons


def test_d2_a_state_machine_that_raises_stops_its_voter_instead_of_wedging_it(staged: Staged):
    attempts: list[int] = []

    def apply(index: int, payload: bytes) -> None:
        if payload == b"poison":
            attempts.append(index)
            raise ValueError("poison")

    stock = staged(StockVoter, "ABC", apply=apply)
    assert the_state_machine_raises(stock) == []
    assert len(attempts) > 5, "the same entry, again and again"
    assert stock.voters["A"]._isLeader()
    assert not stock.acknowledged

    attempts.clear()
    ours = staged(OurVoter, "ABC", apply=apply)
    reasons = the_state_machine_raises(ours)
    assert len(attempts) == len(reasons) > 0
    assert all("the state machine failed at entry" in reason and "poison" in reason for reason in reasons)
    assert not ours.acknowledged
