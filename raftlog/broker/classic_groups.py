"""Members of groups of Kafka's classic protocol: joins and syncs that wait until the group has gone on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from uuid import uuid4

from raftlog.config import GroupConfig
from raftlog.coordinator.group.administration import decide_classic_description
from raftlog.coordinator.group.classic import (
    decide_classic_heartbeat,
    decide_join,
    decide_join_wait,
    decide_sync,
)
from raftlog.coordinator.group.classic_in_consumer import decide_join_of_consumer
from raftlog.coordinator.group.classic_leaving import decide_leave
from raftlog.coordinator.group.classic_requests import ClassicJoin, ClassicSync, JoinOutcome, Leaver, SyncAnswer
from raftlog.coordinator.group.classic_views import ClassicDescription
from raftlog.coordinator.group.state import Group, GroupsState
from raftlog.coordinator.group.topics import Topics
from raftlog.coordinator.runtime import CoordinatorRuntime, Decision, Now
from raftlog.errors import ErrorCode, RaftlogError, RetriableError
from raftlog.partition.waiters import Notifier, wait_until

_LOOKS = 3
"""How often a request that waits is decided again in its member's session: that keeps the session."""
_MAX_PREFIX = 128
"""The most characters of a client id in a member id."""


class ClassicGroups:
    """Serves members of classic groups that this broker coordinates.

    A request that waits is decided again when its group goes on, and now and then. So its answer is always that of the
    present state, and nothing is left behind when its connection ends.

    Args:
        topics: returns the newest metadata.
        max_parked: how many requests may wait at once; further ones are refused.

    Every method raises `StaleRouteError` NOT_COORDINATOR for other groups, and the errors of `Shard.decide`.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupsState],
        config: GroupConfig,
        *,
        topics: Callable[[], Topics],
        max_parked: int,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._topics = topics
        self._max_parked = max_parked
        self._tickets = count(1)
        self._waiting: dict[str, Notifier] = {}
        """By group with requests that wait."""
        self.parked = 0
        """The number of requests that wait."""
        self.generations = 0
        """Generations whose leader was answered here."""

    async def join(
        self,
        group_id: str,
        join: ClassicJoin,
        *,
        timeout_ms: int,
        sees: Callable[[str], bool] = lambda _: True,
        on_wait: Callable[[], None] = lambda: None,
    ) -> JoinOutcome:
        """Answer JoinGroup, once the group's rebalance is complete.

        Args:
            sees: whether the sender may describe a topic.
            on_wait: called before the request waits for other members, perhaps several times.

        Raises:
            RetriableError: COORDINATOR_NOT_AVAILABLE, too many requests wait.
            RaftlogError: see `decide_join`, `decide_join_wait`.
        """
        ticket, new_id = next(self._tickets), f"{(join.instance_id or join.client_id)[:_MAX_PREFIX]}-{uuid4()}"

        def first(state: GroupsState, now: Now) -> Decision[JoinOutcome]:
            return decide_join(
                state,
                now,
                group_id,
                join,
                new_member_id=new_id,
                ticket=ticket,
                topics=self._topics(),
                settings=self._config,
                sees=sees,
            )

        look_s = join.session_timeout_ms / _LOOKS / 1000
        with self._waits_for(group_id) as event:
            outcome = await self._runtime.decide(group_id, first, timeout_ms=timeout_ms)
            while outcome.answer is None and not outcome.is_promised:
                on_wait()
                await wait_until(event, asyncio.get_running_loop().time() + look_s)
                event.clear()
                again = partial(self._look, group_id, outcome, join, ticket, sees)
                outcome = await self._runtime.decide(group_id, again, timeout_ms=timeout_ms)
        self.generations += outcome.answer is not None and bool(outcome.answer.members)
        return outcome

    def _look(
        self,
        group_id: str,
        joined: JoinOutcome,
        join: ClassicJoin,
        ticket: int,
        sees: Callable[[str], bool],
        state: GroupsState,
        now: Now,
    ) -> Decision[JoinOutcome]:
        def again(group: Group) -> Decision[JoinOutcome]:
            return decide_join_of_consumer(
                state,
                now,
                group,
                replace(join, member_id=joined.member_id),
                new_member_id=joined.member_id,
                topics=self._topics(),
                settings=self._config,
                sees=sees,
            )

        return decide_join_wait(
            state,
            now,
            group_id,
            joined.member_id,
            instance_id=join.instance_id,
            generation=joined.generation,
            ticket=ticket,
            settings=self._config,
            again=again,
        )

    async def sync(
        self, group_id: str, sync: ClassicSync, *, timeout_ms: int, on_wait: Callable[[], None] = lambda: None
    ) -> SyncAnswer:
        """Answer SyncGroup, once the leader has assigned.

        Args:
            on_wait: called before the request waits for the leader, perhaps several times.

        Raises:
            RetriableError: COORDINATOR_NOT_AVAILABLE, too many requests wait.
            RaftlogError: see `decide_sync`.
        """
        session_ms = self._config.min_session_timeout_ms
        waited = False

        def decide(state: GroupsState, now: Now) -> Decision[SyncAnswer | None]:
            nonlocal session_ms
            decision = decide_sync(state, now, group_id, sync, settings=self._config, waited=waited)
            if decision.response is None:
                session_ms = state.classic[group_id].members[sync.member_id].session_timeout_ms
            return decision

        with self._waits_for(group_id) as event:
            while True:
                answer = await self._runtime.decide(group_id, decide, timeout_ms=timeout_ms)
                if answer is not None:
                    return answer
                sync = replace(sync, assignments=())  # Not the leader's, which never waits.
                on_wait()
                await wait_until(event, asyncio.get_running_loop().time() + session_ms / _LOOKS / 1000)
                event.clear()
                waited = True

    async def heartbeat(
        self, group_id: str, member_id: str, generation: int, instance_id: str | None, *, timeout_ms: int
    ) -> None:
        """Keep a member's session; see `decide_classic_heartbeat`."""
        await self._runtime.decide(
            group_id,
            lambda state, now: decide_classic_heartbeat(
                state, now, group_id, member_id, generation, instance_id, settings=self._config
            ),
            timeout_ms=timeout_ms,
        )

    async def leave(self, group_id: str, leavers: Sequence[Leaver], *, timeout_ms: int) -> list[RaftlogError | None]:
        """Remove members; return the error of each."""
        return await self._runtime.decide(
            group_id,
            lambda state, now: decide_leave(
                state, now, group_id, leavers, topics=self._topics(), settings=self._config
            ),
            timeout_ms=timeout_ms,
        )

    async def describe(self, group_id: str, *, timeout_ms: int) -> ClassicDescription:
        """Describe a group in the terms of its protocol; see `decide_classic_description`."""
        return await self._runtime.decide(
            group_id, lambda state, now: decide_classic_description(state, now, group_id), timeout_ms=timeout_ms
        )

    def wake(self, group_id: str) -> None:
        """Decide the requests of a group again: it has gone on."""
        if group_id in self._waiting:
            self._waiting[group_id].fire()

    def wake_all(self) -> None:
        """Decide all requests again: other brokers may coordinate their groups now."""
        for notifier in self._waiting.values():
            notifier.fire()

    @contextmanager
    def _waits_for(self, group_id: str) -> Iterator[asyncio.Event]:
        """Return an event that `wake` sets, for a request that may wait."""
        if self.parked >= self._max_parked:
            raise RetriableError(
                f"{self.parked} requests of members wait already; send the request again",
                code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            )
        event, notifier = asyncio.Event(), self._waiting.setdefault(group_id, Notifier())
        notifier.add(event)
        self.parked += 1
        try:
            yield event
        finally:
            self.parked -= 1
            notifier.remove(event)
            if notifier.is_idle and self._waiting.get(group_id) is notifier:
                del self._waiting[group_id]
