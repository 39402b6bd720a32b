"""Scrubs of running brokers, followed until every log is checked and repaired, or waits for a broker that is down."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from raftlog.client import Admin
from raftlog.errors import UnknownOutcomeError, UnreachableError
from raftlog.model import BrokerId
from raftlog.runtime import concurrently
from raftlog.wire.admin import LogDirsResponse, ScrubResponse

_LOOK_S = 0.3
"""The poll interval of the brokers' progress."""
_STALLED_S = 30.0
"""How long no repair may end before the command gives up on those that need a broker that is down."""
R = TypeVar("R")
Row = dict[str, object]


@dataclass(slots=True)
class Scrubbed:
    """The final progress of the brokers' scrubbers, and the remaining damage."""

    progress: list[ScrubResponse]
    silent: list[BrokerId]
    """Brokers that are fenced, or did not answer: what they have checked is not known."""
    log_dirs: list[LogDirsResponse] = field(default_factory=list)
    unscrubbed: list[Row] = field(default_factory=list)
    """The replicas of the silent brokers."""
    found: int = 0
    failed: int = 0
    """How many logs could not be read to their end."""

    def damaged(self, topics: Sequence[str]) -> list[Row]:
        rows = list[tuple[int, str, int, str]]()
        for broker in self.log_dirs:
            for replica in [replica for folder in broker.log_dirs for replica in folder.replicas]:
                what = replica.damage or ("batches are lost" if replica.lost_batches else "")
                if replica.lost_batches:
                    what += f"; no replica has intact: {', '.join(map(str, replica.lost_batches))}"
                rows += [(broker.broker_id, replica.topic, replica.partition, what)] if what else []
            rows += [(broker.broker_id, lost.topic, lost.partition, lost.error) for lost in broker.offline]
        return _rows(row for row in rows if not topics or row[1] in topics)


async def scrub_brokers(
    client: Admin, brokers: Sequence[BrokerId] | None, topics: Sequence[str], *, wait: bool
) -> Scrubbed:
    """Have brokers scrub, and wait for what they find, unless `wait` is False.

    Args:
        brokers: None: all.
        topics: none: all.
    """
    scrub = _Scrub(client, topics)
    begun = await scrub.begin(brokers)
    return await scrub.follow(begun) if wait else Scrubbed(begun, sorted(scrub.silent))


def _rows(found: Iterable[tuple[BrokerId, str, int, str]]) -> list[Row]:
    return [dict(zip(("broker", "topic", "partition", "what"), row, strict=True)) for row in sorted(found)]


class _Scrub:
    def __init__(self, client: Admin, topics: Sequence[str]) -> None:
        self.silent = set[BrokerId]()
        self._client = client
        self._topics = topics
        self._asked: list[BrokerId] = []

    async def begin(self, brokers: Sequence[BrokerId] | None) -> list[ScrubResponse]:
        self._asked = list(brokers or ())
        if brokers is None:
            known = await self._client.brokers()
            self._asked = [broker.broker_id for broker in known]
            self.silent = {broker.broker_id for broker in known if broker.fenced}
        return await self._of_each(lambda broker: self._client.scrub([broker], self._topics))

    async def follow(self, begun: list[ScrubResponse]) -> Scrubbed:
        """Wait until the requested logs are checked, and all damage is repaired or known to be lost."""
        now = await self._until_checked(begun)
        before = {each.broker_id: each for each in begun}
        found = sum(each.damage_found - before[each.broker_id].damage_found for each in now)
        log_dirs = await self._until_repaired(waits=found != 0)
        # A broker may have restarted.
        failed = sum(max(0, each.checks_failed - before[each.broker_id].checks_failed) for each in now)
        return Scrubbed(now, sorted(self.silent), log_dirs, await self._unscrubbed(), found, failed)

    async def _until_checked(self, begun: list[ScrubResponse]) -> list[ScrubResponse]:
        now, total = begun, sum(each.bytes_left for each in begun)
        columns = (TextColumn("scrubbing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        hidden = not sys.stderr.isatty()
        with Progress(*columns, console=Console(stderr=True, emoji=False), transient=True, disable=hidden) as progress:
            task = progress.add_task("", total=total)
            while any(each.replicas_left for each in now):
                await asyncio.sleep(_LOOK_S)
                now = await self._of_each(lambda broker: self._client.scrub_progress([broker]))
                progress.update(task, completed=total - sum(each.bytes_left for each in now))
        return now

    async def _until_repaired(self, *, waits: bool) -> list[LogDirsResponse]:
        """Wait for repairs; not for ever, if each that is left may need a broker that is down."""
        loop = asyncio.get_running_loop()
        repairing, since = set[tuple[str, int]](), loop.time()
        while True:
            log_dirs = await self._of_each(lambda broker: self._client.log_dirs([broker]))
            left = {partition for broker in log_dirs for partition in self._under_repair(broker)}
            if not waits or not left:
                return log_dirs
            if left != repairing:
                repairing, since = left, loop.time()
            elif loop.time() - since >= _STALLED_S and left <= await self._on_down_brokers():
                return log_dirs
            await asyncio.sleep(_LOOK_S)

    async def _of_each(self, ask: Callable[[BrokerId], Coroutine[Any, Any, list[R]]]) -> list[R]:
        """Ask every broker that has answered so far."""

        async def one(broker: BrokerId) -> list[R]:
            try:
                return await ask(broker)
            except (UnreachableError, UnknownOutcomeError):
                self.silent.add(broker)
                return []

        asked = [broker for broker in self._asked if broker not in self.silent]
        return [answer for answers in await concurrently([one(broker) for broker in asked]) for answer in answers]

    def _under_repair(self, broker: LogDirsResponse) -> list[tuple[str, int]]:
        replicas = [replica for folder in broker.log_dirs for replica in folder.replicas]
        wanted = [replica for replica in replicas if not self._topics or replica.topic in self._topics]
        return [(one.topic, one.partition) for one in wanted if one.damage and not one.lost_batches]

    async def _on_down_brokers(self) -> set[tuple[str, int]]:
        down = self.silent | {broker.broker_id for broker in await self._client.brokers() if broker.fenced}
        return {
            (topic.topic, partition.partition)
            for topic in await self._client.list_topics()
            for partition in topic.partitions
            if down & set(partition.replicas)
        }

    async def _unscrubbed(self) -> list[Row]:
        topics = await self._client.list_topics() if self.silent else []
        return _rows(
            (broker, topic.topic, partition.partition, "not scrubbed: the broker does not answer")
            for topic in topics
            if not self._topics or topic.topic in self._topics
            for partition in topic.partitions
            for broker in self.silent & set(partition.replicas)
        )
