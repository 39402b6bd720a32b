"""One fetcher for each leader that replicas of this broker follow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from raftlog.config import ReplicationConfig
from raftlog.model import BrokerId, BrokerRegistration
from raftlog.partition.core.throttle import Throttle
from raftlog.partition.fetcher import LeaderFetcher
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.metrics import PartitionMetrics
from raftlog.partition.replica import Replica
from raftlog.runtime import Tasks
from raftlog.transport import HttpSession


class FetcherManager:
    """Starts, redirects and stops fetchers as metadata changes; see `LeaderFetcher` for the arguments.

    `throttle` is shared by all fetchers: it limits replicas that reassignments add.
    """

    def __init__(
        self,
        *,
        local: LocalBroker,
        session: HttpSession,
        config: ReplicationConfig,
        tasks: Tasks,
        metrics: PartitionMetrics,
    ) -> None:
        self.throttle = Throttle()
        self._local = local
        self._session = session
        self._config = config
        self._tasks = tasks
        self._metrics = metrics
        self._running: dict[BrokerId, tuple[LeaderFetcher, asyncio.Task[None]]] = {}

    def direct(self, replicas: Iterable[Replica], brokers: Mapping[BrokerId, BrokerRegistration]) -> None:
        """Run one fetcher for each leader that these replicas follow, at its current address."""
        following: dict[BrokerId, list[Replica]] = {}
        for replica in replicas:
            leader = replica.state.leader
            if replica.core is None and leader != self._local.broker_id and leader in brokers:
                following.setdefault(leader, []).append(replica)
        for leader in list(self._running):
            if leader not in following or self._running[leader][0].leader.internal != brokers[leader].internal:
                self._running.pop(leader)[1].cancel()
        for leader, followed in following.items():
            if leader not in self._running:
                self._running[leader] = self._start(brokers[leader])
            self._running[leader][0].follow(followed)

    def _start(self, leader: BrokerRegistration) -> tuple[LeaderFetcher, asyncio.Task[None]]:
        fetcher = LeaderFetcher(
            leader,
            local=self._local,
            session=self._session,
            config=self._config,
            throttle=self.throttle,
            metrics=self._metrics,
        )
        return fetcher, self._tasks.spawn(fetcher.run(), name=f"fetch from broker {leader.broker_id}")
