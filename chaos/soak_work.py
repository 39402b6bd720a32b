"""The work of a soak's cluster beside the bulk load: topics come and go, groups churn, single records are timed.

Each kind of work runs until it is cancelled. An error while a node restarts is counted; work continues. But each kind
must succeed again and again while no node restarts.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import raftlog
from raftlog.errors import RaftlogError

PROBE, STREAM = "probe", "stream"
PROBE_EACH_S = 0.1
TOPIC_EACH_S = 3.0
TOPIC_PARTITIONS = 4
TOPIC_RECORDS = 200
MEMBER_EACH_S = 5.0
MOST_MEMBERS = 4
GROUP_LIFE_S = 120.0
STREAM_EACH_S = 0.05
TRANSACTION_EACH_S = 0.5
COMMIT_EACH = 20
UNIT_S = 60.0
"""A unit of work that takes longer hangs."""
MAX_WITHOUT_SUCCESS_S = 300.0
KINDS = ("probe", "stream", "transaction", "topic", "commit of a group", "group")


@dataclass(slots=True)
class SoakWork:
    """Clients of one cluster. `counts` counts their work, `errors` the errors that they got."""

    bootstrap: list[str]
    seed: int = 1
    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    probes: list[tuple[float, float]] = field(default_factory=list)
    """(seconds since the beginning, milliseconds until the acknowledgement)."""
    successes: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By kind of work, the seconds since the beginning when a unit of it succeeded."""
    started: float = field(default_factory=time.monotonic)

    async def prepare(self) -> None:
        """Create the topics that stay."""
        async with raftlog.Admin(self.bootstrap) as admin:
            for topic in (PROBE, STREAM):
                await admin.create_topic(
                    topic, partitions=4, configs={"segment_bytes": 4 << 20, "retention_bytes": 8 << 20}
                )

    async def run(self) -> None:
        """Do all work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for work in (self._probe, self._stream, self._pay, self._topics, self._members):
                group.create_task(self._forever(work), name=work.__name__)

    async def _forever(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat the work after each error, as an application's supervisor does."""
        while True:
            try:
                await work()
            except RaftlogError as error:
                self._failed(error)
                await asyncio.sleep(0.5)
            except TimeoutError:
                self.errors["hung"] += 1

    async def _probe(self) -> None:
        async with raftlog.Producer(self.bootstrap, linger_ms=0) as producer:
            while True:
                begun = time.monotonic()
                async with asyncio.timeout(UNIT_S):
                    await producer.send(PROBE, b"probe")
                self._succeeded("probe")
                self.probes.append((begun - self.started, 1_000 * (time.monotonic() - begun)))
                await asyncio.sleep(PROBE_EACH_S)

    async def _stream(self) -> None:
        """Write the records that groups read."""
        async with raftlog.Producer(self.bootstrap) as producer:
            while True:
                number = self.counts["streamed"]
                async with asyncio.timeout(UNIT_S):
                    await producer.send(STREAM, b"%d" % number, key=b"%d" % (number % 97))
                self._succeeded("stream")
                self.counts["streamed"] += 1
                await asyncio.sleep(STREAM_EACH_S)

    async def _pay(self) -> None:
        """Commit two transactions, and abort each third."""
        async with raftlog.Producer(self.bootstrap, transactional_id="soak") as producer:
            while True:
                self.counts["transactions"] += 1
                try:
                    async with asyncio.timeout(UNIT_S), producer.transaction():
                        await producer.send(STREAM, b"payment")
                        if self.counts["transactions"] % 3 == 0:
                            raise _AbortError
                    self._succeeded("transaction")
                except _AbortError:
                    self.counts["aborted"] += 1
                await asyncio.sleep(TRANSACTION_EACH_S)

    async def _topics(self) -> None:
        """Create a topic, write and read it, and delete it."""
        async with raftlog.Admin(self.bootstrap) as admin:
            while True:
                self.counts["topics"] += 1
                name = f"brief-{self.counts['topics']}"
                async with asyncio.timeout(UNIT_S):
                    await admin.create_topic(name, partitions=TOPIC_PARTITIONS, if_not_exists=True)
                    try:
                        await self._use(name)
                    finally:
                        await admin.delete_topic(name)
                self._succeeded("topic")
                await asyncio.sleep(TOPIC_EACH_S)

    async def _use(self, name: str) -> None:
        values = [b"%d" % number for number in range(TOPIC_RECORDS)]
        async with raftlog.Producer(self.bootstrap) as producer:
            await producer.send_many(name, values)
        async with raftlog.Consumer(self.bootstrap, name, start="earliest") as consumer:
            seen, deadline = 0, time.monotonic() + 30
            while seen < TOPIC_RECORDS and time.monotonic() < deadline:
                seen += len(await consumer.fetch())
        self.counts["brief records short"] += TOPIC_RECORDS - seen

    async def _members(self) -> None:
        """Run a group whose members join and leave. After some minutes delete it and begin another one."""
        dice, number = random.Random(self.seed), 0
        while True:
            number += 1
            await self._one_group(f"soak-{number}", dice)
            async with asyncio.timeout(UNIT_S), raftlog.Admin(self.bootstrap) as admin:
                await admin.delete_group(f"soak-{number}")
            self._succeeded("group")
            self.counts["groups"] += 1

    async def _one_group(self, group_id: str, dice: random.Random) -> None:
        members, ends = set[asyncio.Task[None]](), time.monotonic() + GROUP_LIFE_S
        try:
            while time.monotonic() < ends:
                if len(members) == MOST_MEMBERS or (len(members) > 1 and dice.random() < 0.5):
                    leaving = dice.choice(sorted(members, key=lambda task: task.get_name()))
                    await _end(leaving)
                    members.discard(leaving)
                else:
                    self.counts["members"] += 1
                    members.add(asyncio.create_task(self._member(group_id), name=f"member-{self.counts['members']:08}"))
                await asyncio.sleep(MEMBER_EACH_S)
        finally:
            for member in members:
                await _end(member)

    async def _member(self, group_id: str) -> None:
        try:
            async with raftlog.Consumer(
                self.bootstrap, STREAM, group_id=group_id, auto_offset_reset="latest"
            ) as consumer:
                while True:
                    async with asyncio.timeout(UNIT_S):
                        self.counts["read in groups"] += len(await consumer.fetch())
                        if self.counts["read in groups"] % COMMIT_EACH == 0:
                            await consumer.commit()
                            self._succeeded("commit of a group")
        except RaftlogError as error:
            self._failed(error)
        except TimeoutError:
            self.errors["hung"] += 1

    def _succeeded(self, kind: str) -> None:
        self.successes[kind].append(time.monotonic() - self.started)

    def _failed(self, error: RaftlogError) -> None:
        self.errors[error.code.value] += 1


def without_success(
    successes: Mapping[str, Sequence[float]], restarts: Sequence[tuple[float, float]], seconds: float
) -> list[str]:
    """Return the kinds of work that did not succeed for too long while no node restarted.

    Args:
        successes: by kind, the seconds since the beginning.
        restarts: when restarts of nodes began and ended, in seconds since the beginning.
        seconds: how long the work ran.
    """
    found = []
    for kind in KINDS:
        longest = max(
            after - before - sum(max(0.0, min(after, end) - max(before, begin)) for begin, end in restarts)
            for before, after in pairwise([0.0, *sorted(successes.get(kind, ())), max(seconds, 0.0)])
        )
        if longest > MAX_WITHOUT_SUCCESS_S:
            found.append(f"no {kind} succeeded for {longest:.0f} s without a restart")
    return found


class _AbortError(Exception):
    """Aborts a transaction."""


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
