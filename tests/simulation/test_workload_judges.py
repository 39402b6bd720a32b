"""What judges of single workloads find in histories that no cluster had."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from chaos.history import History, Outcome, Read, Send
from raftlog.model import NO_LEADER, PartitionState
from raftlog.wire.controller import OfflineReplica
from simulation.cluster.compaction import Record, aborted_reads, wrong_in_the_end
from simulation.cluster.pipelined import out_of_order
from simulation.cluster.relays import wrong_results
from simulation.cluster.takeovers import Place, Takeover, Takeovers, is_unclean
from simulation.cluster.unclean import judge


def sent(value: str, offset: int, outcome: Outcome = "ok", process: str = "p") -> Send:
    return Send(process=process, partition=0, value=value, invoked_ns=0, completed_ns=1, outcome=outcome, offset=offset)


def read(*values: str, process: str = "r", first: int = 0) -> list[Read]:
    return [
        Read(process=process, partition=0, offset=offset, value=value, completed_ns=0)
        for offset, value in enumerate(values, first)
    ]


def test_records_of_a_producer_lie_in_the_order_in_which_it_sent_them():
    history = History(final_reads=read("p-0", "q-5", "p-2", "q-3", "p-1"))

    assert list(out_of_order(history, {"p"})) == ["partition 0: of p's records, 1 comes after 2"]
    assert list(out_of_order(history, {"other"})) == []


def test_every_record_of_the_source_has_one_result_and_no_other_one_is_there():
    assert list(wrong_results([b"0-0", b"0-1"], [b"0-1", b"0-0"])) == []
    assert list(wrong_results([b"0-0", b"0-1", b"1-0"], [b"0-0", b"0-0", b"1-0", b"1-7"])) == [
        "0-0 has 2 results",
        "0-1 has 0 results",
        "1-7 is a result of nothing",
    ]


# Unclean elections.


class Lenient:
    """Knows of an election that cost what was at some offsets; logs held everything in the order of its number."""

    def __init__(self, *lost: int) -> None:
        self._lost = lost

    def may_be_gone(self, partition: int, offset: int, value: str) -> bool:
        return offset in self._lost

    def follows(self, partition: int, offset: int, value: str, before: str) -> bool:
        return int(value.split("-")[1]) == int(before.split("-")[1]) + 1


def judged(history: History, *lost: int) -> list[str]:
    return list(judge(history, Lenient(*lost)))  # type: ignore[arg-type]


def test_an_unclean_election_costs_what_its_leader_did_not_hold_and_nothing_else():
    takeover = Takeover(leader_epoch=5, held=frozenset({Place(0, 1), Place(1, 3)}))

    assert not takeover.costs(Place(1, 3))
    assert takeover.costs(Place(1, 2))
    assert takeover.costs(Place(2, 3))
    assert not takeover.costs(Place(2, 5))


def test_what_was_acknowledged_is_gone_only_for_a_reason():
    history = History(sends=[sent("p-0", 0), sent("p-1", 1)], final_reads=read("p-0"))

    assert judged(history, 1) == []
    assert judged(history) == ["p had p-1 at offset 1; no unclean election explains its loss"]


def test_what_was_read_is_gone_only_for_a_reason():
    history = History(
        sends=[sent("p-0", 0), sent("p-1", -1, "info")], reads=read("p-0", "p-1"), final_reads=read("p-0")
    )

    assert judged(history, 1) == []
    assert judged(history) == ["r had p-1 at offset 1; no unclean election explains its loss"]


def test_nothing_is_there_twice_or_was_never_sent_or_failed_for_certain():
    history = History(sends=[sent("p-0", 0), sent("p-1", -1, "fail")], final_reads=read("p-0", "p-0", "p-1", "p-2"))

    assert [wrong[:9] for wrong in judged(history)] == ["p-1 is th", "p-2 is th", "of p's re"]


def test_a_reader_is_told_where_its_log_was_cut():
    sends = [sent(f"p-{n}", n) for n in range(4)]
    unaware = History(sends=sends, reads=read("p-0", "p-1", "p-3"), final_reads=read("p-0", "p-1", "p-2", "p-3"))
    told = History(sends=sends, reads=[*read("p-0", "p-1"), *read("p-3", process="r/2", first=3)])

    assert "r read p-3 after p-1, which no log ever held in a row" in judged(unaware, 2)
    assert not any("in a row" in wrong for wrong in judged(told, 0, 1, 3))


# Compacted topics.


@pytest.mark.parametrize(
    ("sends", "final", "is_wrong"),
    [
        ([sent("1", 0), sent("2", 1)], [(1, "p", "2")], False),
        ([sent("1", 0), sent("2", 1)], [(0, "p", "1"), (1, "p", "2")], False),
        ([sent("1", 0), sent("2", 1)], [(0, "p", "1")], True),
        ([sent("1", 0), sent("2", 1)], [], True),
        ([sent("1", 0), sent("2", -1, "info")], [(1, "p", "2")], False),
        ([sent("1", 0), sent("2", -1, "fail")], [(1, "p", "2")], True),
        ([sent("1", 0), sent("a tombstone", 1)], [], False),
        ([sent("1", 0), sent("a tombstone", 1)], [(1, "p", None)], False),
        ([sent("1", 0), sent("a tombstone", 1)], [(0, "p", "1")], True),
        ([sent("1", 0), sent("a tombstone", -1, "info")], [], False),
    ],
)
def test_the_last_acknowledged_record_of_a_key_stays(sends: list[Send], final: list[Record], is_wrong: bool):
    assert bool(list(wrong_in_the_end(sends, final))) is is_wrong


def test_records_of_an_aborted_transaction_are_read_by_no_reader_of_committed_records():
    sends = [sent("1", 0), sent("2", 1, "fail"), sent("3", -1, "fail"), sent("a tombstone", -1, "fail")]

    assert list(aborted_reads(sends, [(0, "p", "1"), (5, "p", None)])) == []
    assert [wrong[:1] for wrong in aborted_reads(sends, [(0, "p", "1"), (1, "p", None), (7, "p", "3")])] == ["N", "3"]


def decided(before: PartitionState, **after: object) -> PartitionState:
    return replace(before, leader_epoch=before.leader_epoch + 1, **after)


def test_a_broker_could_not_lead_while_it_reports_that_it_cannot_open_the_log():
    takeovers = Takeovers(SimpleNamespace(nodes={"broker-3": SimpleNamespace(rotten=False, spotted=False)}))
    image = SimpleNamespace(brokers={3: SimpleNamespace(fenced=False, in_controlled_shutdown=False)})
    takeovers._image, replica = image, OfflineReplica(topic_id="t", partition=0)
    assert takeovers._could_lead(image, 3, replica)
    takeovers._unopened[3].append((OfflineReplica(topic_id="t", partition=1),))
    assert takeovers._could_lead(image, 3, replica)
    takeovers._unopened[3].append((replica,))
    assert not takeovers._could_lead(image, 3, replica)
    takeovers._unopened[3].extend([(), ()])
    assert takeovers._could_lead(image, 3, replica)


def test_an_election_of_a_replica_that_was_not_in_sync_is_unclean():
    known = PartitionState(replicas=(1, 2, 3), isr=(2,), leader=2, leader_epoch=0, partition_epoch=0, elr=(3,))
    assert is_unclean(known, decided(known, leader=1, isr=(1,), elr=()))
    assert not is_unclean(known, decided(known, leader=3, isr=(3,), elr=()))
    assert not is_unclean(known, decided(known, leader=NO_LEADER))


def test_a_completed_reassignment_may_elect_a_replica_that_its_leader_reported_in_the_same_decision():
    # Seed 1121: a simulator without this rule calls it unclean.
    moving = PartitionState(
        replicas=(1, 3, 2), isr=(3, 2), leader=2, leader_epoch=0, partition_epoch=1, adding=(1,), removing=(2,)
    )
    assert not is_unclean(moving, decided(moving, replicas=(1, 3), isr=(1, 3), leader=1, adding=(), removing=()))
    assert is_unclean(moving, decided(moving, isr=(1,), leader=1))
    without = replace(moving, leader=NO_LEADER)
    assert is_unclean(without, decided(without, replicas=(1, 3), isr=(1,), leader=1, adding=(), removing=()))
