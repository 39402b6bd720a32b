"""ISR changes sent to the controller: one in flight, retried while the outcome is unknown, ended by newer metadata."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from replica_support import EPOCHS, TOPIC_ID, Solo

from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, RaftlogError, UnknownOutcomeError
from raftlog.model import Address, BrokerRegistration, PartitionState
from raftlog.partition import isr as isr_module
from raftlog.partition.isr import IsrKeeper
from raftlog.partition.local_broker import LocalBroker
from raftlog.wire.controller import (
    AlterPartition,
    AlterPartitionResult,
    AlterPartitionsRequest,
    AlterPartitionsResponse,
)
from raftlog.wire.errors import WireError

Answer = Callable[[AlterPartition], AlterPartitionResult]


def refuse(code: ErrorCode) -> Answer:
    return lambda asked: AlterPartitionResult(
        topic_id=TOPIC_ID, partition=0, error=WireError.of(InvalidRequestError("no", code=code))
    )


def accept(asked: AlterPartition, leader_epoch: int = 0) -> AlterPartitionResult:
    state = PartitionState(
        replicas=(1, 2, 3),
        isr=tuple(member.broker_id for member in asked.new_isr),
        leader=1,
        leader_epoch=leader_epoch,
        partition_epoch=asked.partition_epoch + 1,
    )
    return AlterPartitionResult(topic_id=TOPIC_ID, partition=0, state=state)


class Desk:
    """A leader whose ISR is (1, 2) and with which 3 has caught up, its keeper, and a controller with set answers."""

    def __init__(self, folder: Path) -> None:
        self.solo = Solo(folder, isr=(1, 2))
        self.answers: list[Answer | RaftlogError] = []
        self.asked: list[AlterPartition] = []
        self.brokers = {
            broker: BrokerRegistration(
                broker_id=broker,
                incarnation_id="i",
                broker_epoch=epoch,
                public=Address("h", 1),
                internal=Address("h", 2),
                fenced=False,
            )
            for broker, epoch in EPOCHS.items()
        }
        self.keeper = IsrKeeper(
            local=LocalBroker(1, EPOCHS[1], self.brokers),
            leaders=lambda: {self.solo.replica.assignment.key: self.solo.replica} if self.solo.replica.core else {},
            controller=self,
            clock=self.solo.clock,
        )
        self.solo.follow(2, 3)

    @property
    def members(self) -> list[list[int]]:
        """Which ISRs were asked for, in order."""
        return [[member.broker_id for member in asked.new_isr] for asked in self.asked]

    @property
    def pending(self) -> set[int] | None:
        core = self.solo.replica.core
        return None if core is None or core.pending_isr is None else set(core.pending_isr)

    async def alter_partitions(self, request: AlterPartitionsRequest) -> AlterPartitionsResponse:
        (asked,) = request.partitions
        self.asked.append(asked)
        answer = self.answers.pop(0)
        if isinstance(answer, RaftlogError):
            raise answer
        return AlterPartitionsResponse(partitions=(answer(asked),))


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setattr(isr_module, "RETRY_MS", 0)
    desk = Desk(tmp_path)
    yield desk
    await desk.solo.close()


async def test_an_accepted_change_is_in_force_at_once(desk: Desk):
    desk.answers = [accept]
    await desk.keeper.check()

    assert [(m.broker_id, m.broker_epoch) for m in desk.asked[0].new_isr] == [(1, 11), (2, 12), (3, 13)]
    assert (desk.solo.replica.state.isr, desk.pending) == ((1, 2, 3), None)
    assert (desk.keeper.expands, desk.keeper.shrinks) == (1, 0)
    await desk.keeper.check()
    assert len(desk.asked) == 1


async def test_a_silent_follower_is_proposed_out(desk: Desk):
    desk.answers = [accept, accept]
    await desk.keeper.check()
    desk.solo.clock.now_ms = 60_000
    desk.solo.follow(2)
    await desk.keeper.check()

    assert (desk.members, desk.solo.replica.state.isr) == ([[1, 2, 3], [1, 2]], (1, 2))
    assert (desk.keeper.expands, desk.keeper.shrinks) == (1, 1)


async def test_an_unknown_outcome_stays_pending_and_the_same_change_is_sent_again(desk: Desk):
    desk.answers = [UnknownOutcomeError("lost"), UnknownOutcomeError("lost"), accept]
    await desk.keeper.check()
    assert desk.pending == {1, 2, 3}
    desk.solo.clock.now_ms = 60_000  # 3 is silent by now, but nothing else may be proposed.
    await desk.keeper.check()
    assert desk.pending == {1, 2, 3}
    desk.solo.clock.now_ms = 0
    await desk.keeper.check()

    assert desk.asked[0] == desk.asked[1] == desk.asked[2]
    assert (desk.solo.replica.state.isr, desk.pending) == ((1, 2, 3), None)


async def test_the_high_watermark_waits_for_a_pending_member(desk: Desk):
    desk.answers = [UnknownOutcomeError("lost"), accept]
    await desk.keeper.check()
    appended = asyncio.ensure_future(desk.solo.append("x"))
    async with asyncio.timeout(5):
        while desk.solo.replica.log.durable_end_offset < 1:
            await asyncio.sleep(0.001)
    desk.solo.follow(2)
    await asyncio.sleep(0)
    assert (desk.solo.replica.high_watermark, appended.done()) == (0, False)
    desk.solo.follow(3)

    assert (await appended).base_offset == 0


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST])
async def test_a_certain_refusal_ends_the_proposal(desk: Desk, code: ErrorCode):
    desk.answers = [refuse(code)]
    await desk.keeper.check()

    assert (desk.pending, desk.solo.replica.state.isr) == (None, (1, 2))
    desk.answers = [accept]
    await desk.keeper.check()
    assert desk.solo.replica.state.isr == (1, 2, 3)


async def test_a_refusal_after_a_doubt_ends_nothing_until_the_late_copy_is_shut_out(desk: Desk):
    """The first copy may still arrive and be accepted: only a newer partition epoch makes it harmless."""
    desk.answers = [UnknownOutcomeError("lost"), refuse(ErrorCode.INELIGIBLE_REPLICA), accept]
    await desk.keeper.check()
    await desk.keeper.check()
    assert desk.pending == {1, 2, 3}
    await desk.keeper.check()

    assert desk.members == [[1, 2, 3], [1, 2, 3], [1, 2]]
    assert (desk.pending, desk.solo.replica.state.isr, desk.solo.replica.state.partition_epoch) == (None, (1, 2), 1)
    desk.answers = [refuse(ErrorCode.INELIGIBLE_REPLICA)]
    await desk.keeper.check()
    assert desk.pending is None, "the doubt belonged to the change before"


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_CONTROLLER]
)
async def test_after_other_refusals_newer_metadata_decides(desk: Desk, code: ErrorCode):
    desk.answers = [refuse(code), refuse(code)]
    await desk.keeper.check()
    await desk.keeper.check()
    assert desk.pending == {1, 2, 3}

    desk.solo.change(isr=(1, 2, 3))
    await desk.keeper.check()
    assert (desk.pending, len(desk.asked)) == (None, 2)


async def test_metadata_that_overtakes_the_answer_wins(desk: Desk):
    def overtaken(asked: AlterPartition) -> AlterPartitionResult:
        desk.solo.change(isr=(1, 2, 3))
        desk.solo.change(isr=(1, 3))
        return accept(asked)

    desk.answers = [overtaken]
    await desk.keeper.check()

    assert (desk.solo.replica.state.isr, desk.solo.replica.state.partition_epoch, desk.pending) == ((1, 3), 2, None)


async def test_an_answer_of_another_leader_epoch_changes_nothing_here(desk: Desk):
    desk.answers = [lambda asked: accept(asked, leader_epoch=1), accept]
    await desk.keeper.check()
    assert (desk.solo.replica.state.isr, desk.pending) == ((1, 2), {1, 2, 3})


async def test_a_leader_that_resigned_meanwhile_forgets_its_proposal(desk: Desk):
    def resigned(asked: AlterPartition) -> AlterPartitionResult:
        desk.solo.change(leader=2, leader_epoch=1)
        return accept(asked)

    desk.answers = [resigned]
    await desk.keeper.check()
    assert (desk.solo.replica.core, desk.solo.replica.state.leader) == (None, 2)
    await desk.keeper.check()
    desk.solo.change(leader=1, leader_epoch=2)
    desk.solo.follow(2, 3)
    desk.answers = [lambda asked: accept(asked, leader_epoch=2)]
    await desk.keeper.check()

    assert desk.asked[-1].leader_epoch == 2
    assert desk.solo.replica.state.isr == (1, 2, 3)


async def test_a_replaced_broker_goes_on_asking_and_changes_nothing(desk: Desk):
    desk.answers = [FencedError("old", code=ErrorCode.STALE_BROKER_EPOCH)] * 2
    await desk.keeper.check()
    await desk.keeper.check()

    assert (desk.solo.replica.state.isr, desk.pending) == ((1, 2), {1, 2, 3})


@pytest.mark.parametrize("change", [{"fenced": True}, {"in_controlled_shutdown": True}, {"broker_epoch": 14}])
async def test_a_replica_that_the_controller_would_refuse_is_not_proposed(desk: Desk, change: dict):
    desk.brokers[3] = replace(desk.brokers[3], **change)
    await desk.keeper.check()

    assert desk.asked == []


async def test_a_leader_that_stalled_receives_fetches_before_it_checks_the_isr(desk: Desk):
    desk.answers = [accept, accept]
    await desk.keeper.check()
    running = asyncio.ensure_future(desk.keeper.run())
    await asyncio.sleep(0)
    desk.solo.clock.now_ms = 60_000  # As if the process had been paused.
    desk.keeper.hint()
    await until_taken(desk)
    assert desk.members == [[1, 2, 3]]
    desk.solo.follow(2)  # Its fetch had waited in the socket; 3 is silent indeed.
    desk.keeper.hint()
    async with asyncio.timeout(5):
        while len(desk.asked) == 1:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert desk.members == [[1, 2, 3], [1, 2]]


async def test_a_leader_that_is_late_each_time_judges_all_the_same(desk: Desk):
    desk.answers = [accept, accept]
    await desk.keeper.check()
    running = asyncio.ensure_future(desk.keeper.run())
    for late in (1, 2):
        await asyncio.sleep(0)
        desk.solo.clock.now_ms = late * 60_000
        desk.solo.follow(2)
        desk.keeper.hint()
        await until_taken(desk)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert desk.members == [[1, 2, 3], [1, 2]]


async def until_taken(desk: Desk) -> None:
    """Wait until the keeper has acted upon a hint, or has left it."""
    async with asyncio.timeout(5):
        while desk.keeper._hint.is_set():
            await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_a_hint_is_acted_upon_at_once_and_a_lost_one_soon(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(isr_module, "CHECK_INTERVAL_MS", 60_000)
    desk.answers = [accept]
    running = asyncio.ensure_future(desk.keeper.run())
    await asyncio.sleep(0)
    assert desk.asked == []
    desk.keeper.hint()
    async with asyncio.timeout(5):
        while not desk.asked:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert desk.solo.hints > 0  # The replica itself hinted when 3 caught up.


async def test_many_changes_are_asked_for_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(isr_module, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(isr_module, "RETRY_MS", 0)
    solos = [Solo(tmp_path, isr=(1, 2), partition=number) for number in range(5)]
    leaders = {solo.replica.assignment.key: solo.replica for solo in solos}
    asked: list[list[int]] = []
    desk = Desk(tmp_path / "desk")

    class Controller:
        async def alter_partitions(self, request: AlterPartitionsRequest) -> AlterPartitionsResponse:
            asked.append([change.partition for change in request.partitions])
            if len(asked) == 2:
                raise UnknownOutcomeError("lost")
            results = [replace(accept(change), partition=change.partition) for change in request.partitions]
            return AlterPartitionsResponse(partitions=tuple(results))

    keeper = IsrKeeper(
        local=LocalBroker(1, EPOCHS[1], desk.brokers),
        leaders=lambda: leaders,
        controller=Controller(),
        clock=solos[0].clock,
    )
    for solo in solos:
        solo.follow(2, 3)
    await keeper.check()
    assert asked == [[0, 1], [2, 3]]
    await keeper.check()
    assert asked[2:] == [[2, 3], [4]]
    assert [solo.replica.state.isr for solo in solos] == [(1, 2, 3)] * 5
    for solo in [*solos, desk.solo]:
        await solo.close()


async def test_a_member_is_named_with_the_epoch_whose_position_was_compared(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    """It has restarted without its disk since, and its next incarnation has nothing."""

    async def metadata_meanwhile(leaders, _):
        later = replace(desk.brokers[3], broker_epoch=EPOCHS[3] + 10)
        desk.keeper._local.brokers = {**desk.brokers, 3: later}
        for leader in leaders:
            yield leader

    monkeypatch.setattr(isr_module, "in_slices", metadata_meanwhile)
    desk.answers = [accept]
    await desk.keeper.check()
    (asked,) = desk.asked
    assert {member.broker_id: member.broker_epoch for member in asked.new_isr} == EPOCHS
