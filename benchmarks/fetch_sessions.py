"""The cost of an idle follower for its leader and itself: CPU time of one fetch and answer, by partitions followed.

`every` names every partition in each request and each answer, as before there were sessions; `session` names changes
only. Both run the real follower's request, codec and leader, without the network between them.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from unittest.mock import Mock

from benchmarks.report import Bound, Effort, Figure
from raftlog.config import TopicConfig
from raftlog.model import Address, BrokerRegistration, PartitionAssignment, PartitionState, TopicIdPartition
from raftlog.partition.core.follower_session import FollowerSession
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.environment import ReplicaEnvironment, ReplicaObserver
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.readable_replica import in_memory
from raftlog.partition.replica import Replica
from raftlog.partition.replica_fetch_server import ReplicaFetchServer
from raftlog.partition.storage.log import PartitionLog
from raftlog.runtime import SystemClock, Tasks
from raftlog.wire.codec import decode_frame, decode_json, encode_frame, encode_json
from raftlog.wire.replication import NO_SESSION, ReplicaFetchPartition, ReplicaFetchRequest, ReplicaFetchResponse

SIZES = (10, 100, 1_000)
_TOPIC_ID = "a" * 32


class _Leader:
    """Broker 1, and the partitions that broker 2 follows there."""

    def __init__(self, folder: Path, partitions: int) -> None:
        self.tasks = Tasks("bench")
        self.replicas = {TopicIdPartition(_TOPIC_ID, n): self._replica(folder, n) for n in range(partitions)}
        here = Address("127.0.0.1", 1)
        follower = BrokerRegistration(
            broker_id=2, incarnation_id="2", broker_epoch=1, public=here, internal=here, fenced=False
        )
        self.server = ReplicaFetchServer(
            find=self.replicas.__getitem__, local=LocalBroker(1, 1, {2: follower}), clock=SystemClock()
        )

    def _replica(self, folder: Path, partition: int) -> Replica:
        state = PartitionState(replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=0, partition_epoch=0)
        assignment = PartitionAssignment(topic="t", topic_id=_TOPIC_ID, partition=partition, state=state)
        replica = Replica(
            assignment=assignment,
            log=PartitionLog.open(folder / str(partition), TopicConfig()),
            producers=ProducerStates(),
            environment=ReplicaEnvironment(
                broker_id=1, observer=Mock(ReplicaObserver), clock=SystemClock(), tasks=self.tasks
            ),
        )
        replica.apply(assignment)
        return replica

    def position(self, key: TopicIdPartition) -> ReplicaFetchPartition:
        log = self.replicas[key].log  # The follower's is the same: no record is appended here.
        return ReplicaFetchPartition(
            topic_id=key.topic_id,
            partition=key.partition,
            leader_epoch=0,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=log.last_epoch,
            log_start_offset=log.log_start_offset,
        )

    async def round(self, request: ReplicaFetchRequest) -> ReplicaFetchResponse:
        """Carry one request to the leader, and its answer back."""
        received = decode_json(ReplicaFetchRequest, encode_json(request))
        response, parts = await self.server.serve(received)
        answer, _ = decode_frame(ReplicaFetchResponse, b"".join([*encode_frame(response), *map(in_memory, parts)]))
        return answer

    async def close(self) -> None:
        self.server.close()
        await self.tasks.close()
        for replica in self.replicas.values():
            replica.close()


def _request(**more: object) -> ReplicaFetchRequest:
    return ReplicaFetchRequest(replica_id=2, broker_epoch=1, max_wait_ms=0, **more)  # type: ignore[arg-type]


async def _every(leader: _Leader, rounds: int) -> list[float]:
    samples = []
    for _ in range(rounds):
        started = time.process_time()
        named = tuple(leader.position(key) for key in leader.replicas)
        answer = await leader.round(_request(session_epoch=NO_SESSION, partitions=named))
        dict(zip(named, answer.partitions, strict=True))
        samples.append((time.process_time() - started) * 1e6)
    return samples


async def _session(leader: _Leader, rounds: int) -> list[float]:
    session, samples = FollowerSession(), []
    session.follow(leader.replicas)
    for number in range(rounds + 2):
        started = time.process_time()
        part = session.next_request(leader.position)
        request = _request(
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            answers_lost=part.answers_lost,
            forgotten=part.forgotten,
            partitions=part.partitions,
        )
        session.on_answer((await leader.round(request)).session_id)
        if number >= 2:  # The first ones open the session, and send the high watermarks.
            samples.append((time.process_time() - started) * 1e6)
    return samples


async def _measure(partitions: int, rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        leader = _Leader(Path(folder), partitions)
        try:
            every = Figure(name=f"every_{partitions}_us", samples=await _every(leader, rounds))
            ratio = every.measured["median"]
            session = Figure(name=f"session_{partitions}_us", samples=await _session(leader, rounds))
            ratio /= session.measured["median"]
        finally:
            await leader.close()
    wanted = Bound(statistic="median", at_least=50.0)
    bounds = (wanted,) if partitions == SIZES[-1] else ()
    return [every, session, Figure(name=f"ratio_{partitions}", samples=[ratio], bounds=bounds)]


def idle_rounds(effort: Effort) -> list[Figure]:
    """Measure rounds without changes."""
    figures = []
    for partitions in SIZES:
        figures += asyncio.run(_measure(partitions, rounds=effort.pick(200, quick=20)))
    return figures


FIGURES = {"idle_rounds": idle_rounds}
