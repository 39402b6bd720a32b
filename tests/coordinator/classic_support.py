"""Members of a classic group in a few lines. As at a broker, requests that wait are decided again now and then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from group_support import GROUP, Shard

from raftlog.coordinator.group.classic import decide_classic_heartbeat, decide_join, decide_join_wait, decide_sync
from raftlog.coordinator.group.classic_leaving import decide_leave
from raftlog.coordinator.group.classic_requests import ClassicJoin, ClassicSync, JoinAnswer, JoinOutcome, Leaver
from raftlog.coordinator.group.classic_state import ClassicGroup
from raftlog.coordinator.group.offsets import decide_commit
from raftlog.errors import ErrorCode, RaftlogError
from raftlog.wire.groups import CommitOffset, OffsetCommitRequest
from raftlog.wire.kafka.consumer_protocol import encode_subscription
from raftlog.wire.kafka.messages.consumer_protocol import ConsumerProtocolSubscription

SESSION_MS, REBALANCE_MS, DELAY_MS = 10_000, 60_000, 3_000


class ClassicShard(Shard):
    """A shard with classic groups; it numbers requests, and makes member ids."""

    def __init__(self, **settings: int) -> None:
        super().__init__(**settings)
        self.tickets = 0
        self.ids = 0

    @property
    def classic(self) -> ClassicGroup:
        return self.state.classic[GROUP]

    def join(self, group_id: str = GROUP, **wishes: Any) -> tuple[JoinOutcome, int]:
        self.tickets, self.ids = self.tickets + 1, self.ids + 1
        request = ClassicJoin(
            **{
                "protocol_type": "consumer",
                "protocols": (("range", b"r"),),
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": REBALANCE_MS,
                **wishes,
            }
        )
        outcome = self.run(
            decide_join,
            group_id,
            request,
            new_member_id=f"m{self.ids}",
            ticket=self.tickets,
            topics=self.topics,
            settings=self.settings,
        )
        return outcome, self.tickets

    def wait_join(self, member_id: str, generation: int, ticket: int, instance_id: str | None = None) -> JoinOutcome:
        return self.run(
            decide_join_wait,
            GROUP,
            member_id,
            instance_id=instance_id,
            generation=generation,
            ticket=ticket,
            settings=self.settings,
        )

    def sync(self, member_id: str, generation: int, *, waited: bool = False, **more: Any) -> bytes | None:
        request = ClassicSync(member_id=member_id, generation=generation, **more)
        answer = self.run(decide_sync, GROUP, request, settings=self.settings, waited=waited)
        return None if answer is None else answer.assignment

    def beat(self, member_id: str, generation: int, instance_id: str | None = None) -> None:
        self.run(decide_classic_heartbeat, GROUP, member_id, generation, instance_id, settings=self.settings)

    def leave(self, *leavers: Leaver) -> list[ErrorCode | None]:
        errors = self.run(decide_leave, GROUP, leavers, topics=self.topics, settings=self.settings)
        return [None if error is None else error.code for error in errors]


@dataclass
class ClassicMember:
    """A client: it joins, assigns if it leads, syncs and sends heartbeats, one request at a time."""

    shard: ClassicShard
    instance_id: str | None = None
    protocols: tuple[tuple[str, bytes], ...] = (("range", b"r"),)
    wishes: dict[str, Any] = field(default_factory=dict)
    member_id: str = ""
    generation: int = -1
    assignment: bytes | None = None
    """None: it has no part in a stable generation."""
    answer: JoinAnswer | None = None
    """Of its newest join."""
    pending: tuple[int, int] | None = None
    """The generation and the ticket of a join that waits."""
    syncing: bool = False
    syncs: bool = True
    answers: int = 0
    sent: int = 0
    errors: list[ErrorCode] = field(default_factory=list)

    def step(self) -> None:
        """Send the next request, or look at the one that waits."""
        try:
            self._step()
        except RaftlogError as error:
            self.answers += 1
            self.errors.append(error.code)
            self.pending, self.syncing, self.assignment, self.answer = None, False, None, None
            if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                self.member_id = ""

    def _step(self) -> None:
        shard = self.shard
        if self.pending is not None:
            self._joined(shard.wait_join(self.member_id, *self.pending, self.instance_id))
        elif self.answer is None:
            self.sent += 1
            outcome, ticket = shard.join(
                member_id=self.member_id,
                instance_id=self.instance_id,
                protocols=self.protocols,
                requires_known_id=True,
                **self.wishes,
            )
            self.member_id = outcome.member_id
            if outcome.is_promised:
                self.answers += 1
                return
            self.pending = (outcome.generation, ticket)
            self._joined(outcome)
        elif self.assignment is None:
            if self.syncs:
                self._sync()
        else:
            self.sent += 1
            shard.beat(self.member_id, self.generation, self.instance_id)
            self.answers += 1

    def _joined(self, outcome: JoinOutcome) -> None:
        if outcome.answer is not None:
            self.answers += 1
            self.answer, self.pending, self.generation = outcome.answer, None, outcome.answer.generation

    def _sync(self) -> None:
        assert self.answer is not None
        if not self.syncing:
            self.sent += 1
        given = ()
        if self.answer.leader == self.member_id and not self.answer.skip_assignment:
            given = tuple((one.member_id, f"{self.generation}-{one.member_id}".encode()) for one in self.answer.members)
        waited, self.syncing = self.syncing, True
        self.assignment = self.shard.sync(
            self.member_id, self.generation, waited=waited, assignments=given, instance_id=self.instance_id
        )
        if self.assignment is not None:
            self.syncing = False
            self.answers += 1

    @property
    def leads(self) -> bool:
        return self.answer is not None and self.answer.leader == self.member_id

    def restart(self) -> ClassicMember:
        """Return another process of the same static member."""
        return ClassicMember(self.shard, self.instance_id, self.protocols, dict(self.wishes))


def settle(members: Iterable[ClassicMember], *, ms: int = 1_000, rounds: int = 12) -> None:
    """Let members act while time passes."""
    listed = list(members)
    for _ in range(rounds):
        for member in listed:
            member.step()
        listed[0].shard.pass_time(ms)


def stable(count: int = 2, **settings: int) -> tuple[ClassicShard, list[ClassicMember]]:
    """Return a stable group of some members; the first one leads."""
    shard = ClassicShard(**settings)
    members = [ClassicMember(shard) for _ in range(count)]
    settle(members)
    assert shard.classic.phase == "Stable"
    return shard, members


def code_of(call: Any, *arguments: Any, **more: Any) -> ErrorCode:
    """Return the code of the error that a call raises."""
    with pytest.raises(RaftlogError) as raised:
        call(*arguments, **more)
    return raised.value.code


def reads(*topics: str) -> bytes:
    """Return the metadata of a consumer that reads topics."""
    return encode_subscription(1, ConsumerProtocolSubscription(topics=list(topics)))


def commit(shard: ClassicShard, offset: int, member: str = "", generation: int = -1, **more: Any) -> None:
    entry = CommitOffset(topic="t", partition=0, offset=offset)
    request = OffsetCommitRequest(offsets=(entry,), member_id=member, member_epoch=generation)
    result = shard.run(decide_commit, GROUP, request, topics=shard.topics, settings=shard.settings, **more)
    assert [one.error for one in result.offsets] == [None]
