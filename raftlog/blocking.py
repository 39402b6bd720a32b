"""The client without async: the same three classes, for scripts and notebooks.

Each object runs an event loop in a thread of its own, and its methods wait for that thread. So it may be used from any
thread, also where another event loop runs. Close it, or use it as a context manager.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from raftlog import client
from raftlog.client.deliveries import RecordMetadata
from raftlog.client.metrics import ConsumerMetrics, ProducerMetrics
from raftlog.client.offsets import OffsetAndMetadata
from raftlog.client.starts import Start
from raftlog.client.transactions import GroupMetadata
from raftlog.client.transactions import Transaction as AsyncTransaction
from raftlog.model import Acl, BrokerId, Offset, Quota, TopicPartition
from raftlog.record import Record
from raftlog.runtime import loop_factory
from raftlog.wire.admin import ElectedLeader, LogDirsResponse, QuorumResponse, Reassignment, UserInfo
from raftlog.wire.coordinators import CoordinatorInfo, CoordinatorKind
from raftlog.wire.data import OffsetResponse
from raftlog.wire.groups import GroupDescription, GroupListing
from raftlog.wire.metadata import BrokerInfo, ClusterInfo, ConfigValue, ControllerInfo, TopicInfo

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Admin", "Consumer", "Producer"]

C = TypeVar("C", client.Producer, client.Consumer, client.Admin)
T = TypeVar("T")
ITERATION_WAIT_MS = 60_000


class _Blocking(Generic[C]):
    """One async client and the thread that runs it."""

    def __init__(self, make: type[C], *arguments: Any, **options: Any) -> None:
        self._loop = (loop_factory() or asyncio.new_event_loop)()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"raftlog {make.__name__}", daemon=True)
        self._thread.start()
        try:
            self._client: C = self._run(self._start(make, arguments, options))
        except BaseException:
            self._stop()
            raise

    @staticmethod
    async def _start(make: type[C], arguments: tuple[Any, ...], options: dict[str, Any]) -> C:
        return await make(*arguments, **options).__aenter__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what is under way, close every connection, and end the thread."""
        if self._loop.is_closed():
            return
        try:
            self._run(self._client.close())
        finally:
            self._stop()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _soon(work: Callable[..., None], *arguments: Any) -> None:
    """Do something in the loop's thread; its errors are the caller's."""
    work(*arguments)


async def _answer(ask: Callable[[], T]) -> T:
    """Ask in the loop's thread, where nothing changes meanwhile."""
    return ask()


class Producer(_Blocking[client.Producer]):
    """Writes records; takes the arguments of `raftlog.Producer`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(client.Producer, *arguments, **options)

    def send(self, topic: str, value: bytes | None = None, **record: Any) -> RecordMetadata:
        """Send one record and wait until it is acknowledged; see `raftlog.Producer.send`."""
        return self._run(self._client.send(topic, value, **record))

    def send_nowait(self, topic: str, value: bytes | None = None, **record: Any) -> Future[RecordMetadata]:
        """Queue one record; return a future of its metadata. Waits while the buffer is full."""
        return asyncio.run_coroutine_threadsafe(self._client.send(topic, value, **record), self._loop)

    def send_many(
        self, topic: str, values: Sequence[bytes | None], *, key: bytes | None = None
    ) -> Sequence[RecordMetadata]:
        """Send several values and wait until all are acknowledged."""
        return self._run(self._client.send_many(topic, values, key=key))

    def metrics(self) -> ProducerMetrics:
        """Return what this producer has done so far."""
        return self._run(_answer(self._client.metrics))

    def flush(self) -> None:
        """Wait until every queued record has an outcome."""
        self._run(self._client.flush())

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Run the block as one transaction; see `raftlog.Producer.transaction`."""
        work = self._client.transaction()
        self._run(work.__aenter__())
        try:
            yield Transaction(self._run, work)
        except BaseException as error:
            self._run(work.__aexit__(type(error), error, error.__traceback__))
            raise
        self._run(work.__aexit__(None, None, None))


class Transaction:
    """A transaction that is under way."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, None]], None], work: AsyncTransaction) -> None:
        self._run = run
        self._work = work

    def send_offsets(self, offsets: Mapping[tuple[str, int], Offset], group: GroupMetadata | str) -> None:
        """Have a group's offsets count if the transaction does; see `raftlog.client.transactions.Transaction`."""
        self._run(self._work.send_offsets(offsets, group))


class Consumer(_Blocking[client.Consumer]):
    """Reads topics; takes the arguments of `raftlog.Consumer`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(client.Consumer, *arguments, **options)

    def __iter__(self) -> Iterator[Record]:
        while True:
            yield from self.fetch(max_wait_ms=ITERATION_WAIT_MS)

    def fetch(self, *, max_records: int | None = None, max_wait_ms: int = 500) -> list[Record]:
        """Return the next records; see `raftlog.Consumer.fetch`."""
        return self._run(self._client.fetch(max_records=max_records, max_wait_ms=max_wait_ms))

    def fetch_arrow(self, *, max_wait_ms: int = 500) -> pa.Table:
        """Return everything that is ready as one table; see `raftlog.Consumer.fetch_arrow`."""
        return self._run(self._client.fetch_arrow(max_wait_ms=max_wait_ms))

    def position(self, topic: str, partition: int) -> Offset:
        """Return the offset of the next record that will be returned."""
        return self._run(_answer(lambda: self._client.position(topic, partition)))

    @property
    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are read."""
        return self._run(_answer(lambda: self._client.assignment))

    def lag(self, topic: str, partition: int) -> int | None:
        """Return how many offsets there are still to read, as far as is known."""
        return self._run(_answer(lambda: self._client.lag(topic, partition)))

    def commit(self, offsets: Mapping[tuple[str, int], Offset | OffsetAndMetadata] | None = None) -> None:
        """Commit what was returned so far, or these offsets; see `raftlog.Consumer.commit`."""
        self._run(self._client.commit(offsets))

    def commit_nowait(
        self, offsets: Mapping[tuple[str, int], Offset | OffsetAndMetadata] | None = None
    ) -> Future[None]:
        """Commit in the background; return a future, to wait for or to drop."""
        return asyncio.run_coroutine_threadsafe(self._commit_soon(offsets), self._loop)

    def metrics(self) -> ConsumerMetrics:
        """Return what this consumer has done so far."""
        return self._run(_answer(self._client.metrics))

    async def _commit_soon(self, offsets: Mapping[tuple[str, int], Offset | OffsetAndMetadata] | None) -> None:
        await self._client.commit_nowait(offsets)

    @property
    def group_metadata(self) -> GroupMetadata:
        """Return who in the group this member is: for `Transaction.send_offsets`."""
        return self._run(_answer(lambda: self._client.group_metadata))

    def committed(self, *partitions: tuple[str, int]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets; see `raftlog.Consumer.committed`."""
        return self._run(self._client.committed(*partitions))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of some partitions (none named: of all), until `resume`."""
        self._run(_soon(self._client.pause, *partitions))

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Go on with paused partitions (none named: all)."""
        self._run(_soon(self._client.resume, *partitions))

    def seek(self, topic: str, partition: int, offset: Offset) -> None:
        """Go on at `offset`."""
        self._run(self._client.seek(topic, partition, offset))

    def seek_to(self, start: Start, *partitions: tuple[str, int]) -> None:
        """Go on at an end of the log, or at a time; see `raftlog.Consumer.seek_to`."""
        self._run(self._client.seek_to(start, *partitions))

    def seek_to_committed(self) -> None:
        """Go on from what the group has committed: what was returned since is returned again."""
        self._run(self._client.seek_to_committed())

    def beginning_offsets(self) -> dict[TopicPartition, Offset]:
        """Return the log start offset of each partition that is read."""
        return self._run(self._client.beginning_offsets())

    def end_offsets(self) -> dict[TopicPartition, Offset]:
        """Return the high watermark of each partition that is read."""
        return self._run(self._client.end_offsets())


class Admin(_Blocking[client.Admin]):
    """Administers topics; takes the arguments of `raftlog.Admin`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(client.Admin, *arguments, **options)

    def create_topic(self, topic: str, **settings: Any) -> TopicInfo:
        """Create a topic; see `raftlog.Admin.create_topic`."""
        return self._run(self._client.create_topic(topic, **settings))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and its records."""
        self._run(self._client.delete_topic(topic))

    def alter_topic(self, topic: str, **changes: Any) -> TopicInfo:
        """Change a topic's settings, or add partitions; see `raftlog.Admin.alter_topic`."""
        return self._run(self._client.alter_topic(topic, **changes))

    def list_topics(self, *, local: bool = False) -> list[TopicInfo]:
        """Return every topic, sorted by name."""
        return self._run(self._client.list_topics(local=local))

    def describe_topic(self, topic: str, *, local: bool = False) -> TopicInfo:
        """Return one topic."""
        return self._run(self._client.describe_topic(topic, local=local))

    def list_offsets(self, topic: str, at: Start = "latest", **which: Any) -> list[OffsetResponse]:
        """Return an offset of each of a topic's partitions; see `raftlog.Admin.list_offsets`."""
        return self._run(self._client.list_offsets(topic, at, **which))

    def delete_records(self, topic: str, partition: int, *, before: Offset | None = None) -> Offset:
        """Delete a partition's records below an offset, or (None) all; see `raftlog.Admin.delete_records`."""
        return self._run(self._client.delete_records(topic, partition, before=before))

    def reassignments(self, *, local: bool = False) -> list[Reassignment]:
        """Return the reassignments that are under way."""
        return self._run(self._client.reassignments(local=local))

    def reassign_partitions(self, target: Mapping[tuple[str, int], Sequence[int] | None]) -> list[Reassignment]:
        """Move replicas; see `raftlog.Admin.reassign_partitions`."""
        return self._run(self._client.reassign_partitions(target))

    def elect_leaders(
        self, partitions: Sequence[tuple[str, int]] | None = None, *, unclean: bool = False
    ) -> list[ElectedLeader]:
        """Elect leaders; see `raftlog.Admin.elect_leaders`."""
        return self._run(self._client.elect_leaders(partitions, unclean=unclean))

    def list_groups(self) -> list[GroupListing]:
        """Return every consumer group."""
        return self._run(self._client.list_groups())

    def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group's members, and what they read."""
        return self._run(self._client.describe_group(group_id))

    def group_offsets(self, group_id: str) -> dict[TopicPartition, Offset]:
        """Return every offset that a group has committed."""
        return self._run(self._client.group_offsets(group_id))

    def group_lag(self, group_id: str) -> dict[TopicPartition, int]:
        """Return how many offsets a group has still to read of each partition."""
        return self._run(self._client.group_lag(group_id))

    def alter_group_offsets(self, group_id: str, offsets: Mapping[tuple[str, int], Offset]) -> None:
        """Let a group without members go on elsewhere; see `raftlog.Admin.alter_group_offsets`."""
        self._run(self._client.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Forget how far a group has read some partitions; see `raftlog.Admin.delete_group_offsets`."""
        self._run(self._client.delete_group_offsets(group_id, partitions))

    def find_coordinator(self, kind: CoordinatorKind, key: str) -> CoordinatorInfo:
        """Return which broker coordinates a group or a transactional id."""
        return self._run(self._client.find_coordinator(kind, key))

    def reset_group_offsets(self, group_id: str, **where: Any) -> dict[TopicPartition, Offset]:
        """Let a group without members read on elsewhere; see `raftlog.Admin.reset_group_offsets`."""
        return self._run(self._client.reset_group_offsets(group_id, **where))

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its offsets."""
        self._run(self._client.delete_group(group_id))

    def describe_cluster(self, *, local: bool = False) -> ClusterInfo:
        """Return the cluster's id, active controller and brokers."""
        return self._run(self._client.describe_cluster(local=local))

    def controller(self, *, local: bool = False) -> ControllerInfo:
        """Return who the active controller is."""
        return self._run(self._client.controller(local=local))

    def describe_quorum(self) -> QuorumResponse:
        """Return how far each voter of the metadata quorum is."""
        return self._run(self._client.describe_quorum())

    def brokers(self, *, local: bool = False) -> list[BrokerInfo]:
        """Return every registered broker."""
        return self._run(self._client.brokers(local=local))

    def unregister_broker(self, broker_id: BrokerId) -> None:
        """Forget a broker that will not come back; see `raftlog.Admin.unregister_broker`."""
        self._run(self._client.unregister_broker(broker_id))

    def log_dirs(self, broker_ids: Sequence[BrokerId] | None = None) -> list[LogDirsResponse]:
        """Return brokers' folders: disk space, and sizes of replicas; see `raftlog.Admin.log_dirs`."""
        return self._run(self._client.log_dirs(broker_ids))

    def broker_configs(self, broker_id: BrokerId | None = None, *, local: bool = False) -> dict[str, ConfigValue]:
        """Return the dynamic settings of one broker, or (None) those of all."""
        return self._run(self._client.broker_configs(broker_id, local=local))

    def alter_broker_configs(
        self, configs: Mapping[str, ConfigValue | None], broker_id: BrokerId | None = None
    ) -> dict[str, ConfigValue]:
        """Change dynamic settings of one broker, or (None) of all; see `raftlog.Admin.alter_broker_configs`."""
        return self._run(self._client.alter_broker_configs(configs, broker_id))

    def users(self, *, local: bool = False) -> list[UserInfo]:
        """Return every user, sorted by name."""
        return self._run(self._client.users(local=local))

    def put_user(self, user: str, password: str) -> None:
        """Create a user, or give one another password."""
        self._run(self._client.put_user(user, password))

    def delete_user(self, user: str) -> None:
        """Forget a user."""
        self._run(self._client.delete_user(user))

    def acls(self, *, local: bool = False, **wanted: str) -> list[Acl]:
        """Return the access rules whose fields have the values wanted."""
        return self._run(self._client.acls(local=local, **wanted))

    def create_acls(self, acls: Sequence[Acl]) -> None:
        """Put access rules in force."""
        self._run(self._client.create_acls(acls))

    def delete_acls(self, **wanted: str) -> list[Acl]:
        """End the access rules whose fields have the values wanted; return them."""
        return self._run(self._client.delete_acls(**wanted))

    def quotas(self, *, local: bool = False) -> list[Quota]:
        """Return every quota."""
        return self._run(self._client.quotas(local=local))

    def alter_quota(self, limits: Mapping[str, float | None], *, user: str = "", client_id: str = "") -> None:
        """Change some limits of a user, a client id or both; see `raftlog.Admin.alter_quota`."""
        self._run(self._client.alter_quota(limits, user=user, client_id=client_id))
