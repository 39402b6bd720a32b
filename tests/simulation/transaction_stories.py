"""Stories of transactions on real brokers in simulation (scenario 11, KIP-890, KIP-360), and one of chaos."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import TypeAlias

import raftlog
from chaos.transactions import Transaction, TransactionClients, TransactionHistory, check_transactions
from raftlog.model import TRANSACTION_STATE, Address
from raftlog.record import NewRecord, build_batch
from raftlog.record.partitioner import partition_for_key
from raftlog.transport import HttpSession
from raftlog.wire import media, paths
from raftlog.wire.codec import encode_json
from raftlog.wire.transactions import (
    EndTransactionBody,
    TransactionMarker,
    TransactionPartition,
    WriteMarkersRequest,
    WriteMarkersResponse,
)
from simulation.cluster.life import Life
from simulation.cluster.loop import Process
from simulation.cluster.nodes import INTERNAL, PUBLIC, Node
from simulation.cluster.script import Script
from simulation.cluster.settings import Settings
from simulation.cluster.world import World

TX, PARTITIONS, NAME = "tx", 3, "payments"
CLIENT_HOST = "10.0.6.1"
LONG_MS = 600_000
Message: TypeAlias = Callable[[HttpSession, Address], Awaitable[object]]


class Late:
    """A message in flight on a connection of its own."""

    def __init__(self, bank: Bank, node: Node, host: str) -> None:
        self._bank, self._link = bank, (host, node.host)
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def send(self, send: Message, to: Address) -> None:
        connected, go = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            async with HttpSession() as session:
                await session.request("GET", to, paths.LIVEZ, timeout_ms=LONG_MS)
                connected.set()
                await go.wait()
                try:
                    await send(session, to)
                    self._answer.set_result("done")
                except raftlog.RaftlogError as error:
                    self._answer.set_result(error.code.value)

        self._task = self._bank.world.loop.create_task(run(), context=Process("late", self._link[0]).context)
        await self._bank.script.until(connected.is_set, f"a connection to {to}")
        self._bank.world.net.hold({self._link})
        go.set()
        await self._bank.script.pass_time(0.1)
        assert not self._answer.done()

    async def arrive(self) -> str:
        """Let it arrive; return the error's code in its answer, or `done`."""
        self._bank.world.net.release({self._link})
        return await self._answer


def _identity(producer: raftlog.Producer) -> dict[str, int]:
    transactions = producer._gate.transactions
    assert transactions is not None
    assert transactions._producer is not None
    return asdict(transactions._producer)


class Bank:
    """A client with transactions, and control over the links between it and the cluster."""

    def __init__(self, script: Script) -> None:
        self.script, self.world = script, script.world
        self.history = TransactionHistory()
        self.clients = TransactionClients(
            self.history, script.world.bootstrap, Random(self.world.dice.random()), topic=TX, partitions=PARTITIONS
        )
        self._made = 0

    async def as_client(self, work: Callable[[], Awaitable[object]], host: str = CLIENT_HOST) -> None:
        """Run work in a process of its own."""

        async def run() -> None:
            await work()

        self._made += 1
        await self.world.loop.create_task(run(), context=Process(f"bank-{self._made}", host).context)

    async def open(self) -> None:
        await self.script.administer(
            lambda admin: admin.create_topic(TX, partitions=PARTITIONS, replication_factor=self.world.settings.replicas)
        )

    def coordinator(self) -> Node:
        """The coordinator of `NAME`, in the newest controller's image."""
        topic = self.world.images()[-1].topic(TRANSACTION_STATE)
        assert topic is not None
        return self.script.broker(topic.partitions[partition_for_key(NAME.encode(), len(topic.partitions))].leader)

    async def hold_back(self, node: Node, send: Message, *, port: int = PUBLIC) -> Late:
        """Have a message to a node be sent, and not arrive yet: its sender has no deadline."""
        self._made += 1
        late = Late(self, node, f"10.0.7.{self._made}")
        await late.send(send, Address(node.host, port))
        return late

    def end_of(self, producer: raftlog.Producer, committed: bool) -> Message:
        """The end of a producer's open transaction."""
        body = EndTransactionBody(**_identity(producer), committed=committed)
        path = paths.fill(paths.END_TRANSACTION, transactional_id=NAME)
        return lambda session, to: session.request("POST", to, path, timeout_ms=LONG_MS, body=encode_json(body))

    def batch_of(self, producer: raftlog.Producer, partition: int, value: bytes) -> Message:
        """A batch of a producer's open transaction, the first to its partition."""
        batch = build_batch([NewRecord(value)], **_identity(producer), base_sequence=0, transactional=True)
        path = f"{paths.fill(paths.BATCHES, topic=TX, partition=partition)}?acks=all&transactional_id={NAME}"
        return lambda session, to: session.request(
            "POST", to, path, timeout_ms=LONG_MS, body=batch, content_type=media.BATCHES
        )

    def marker_of(self, producer: raftlog.Producer, committed: bool) -> Message:
        """A marker of a producer's open transaction, for partition 0."""
        identity = _identity(producer)
        topic = self.world.images()[-1].topic(TX)
        assert topic is not None
        marker = TransactionMarker(
            producer_id=identity["producer_id"],
            producer_epoch=identity["producer_epoch"] + 1,
            coordinator_epoch=self._newest_coordinator_epoch(),
            committed=committed,
        )
        partition = TransactionPartition(topic=TX, partition=0, topic_id=topic.topic_id)
        body = WriteMarkersRequest(marker=marker, partitions=(partition,))

        async def send(session: HttpSession, to: Address) -> object:
            answer = await session.call(
                WriteMarkersResponse, "POST", to, paths.WRITE_MARKERS, timeout_ms=LONG_MS, message=body
            )
            if answer.errors[0] is not None:
                raise answer.errors[0].to_error()
            return answer

        return send

    def leader_of(self, partition: int) -> Node:
        topic = self.world.images()[-1].topic(TX)
        assert topic is not None
        return self.script.broker(topic.partitions[partition].leader)

    async def judge(self) -> None:
        """Read everything that is committed in the end, and check the history."""
        for node in self.world.nodes.values():
            if not node.running:
                self.world.start(node)
        await self.script.until(self.world.is_healthy, "all is healthy")
        await self.script.until(self._all_decided, "every transaction is decided")
        await self.as_client(self.clients.read_everything, "10.0.6.9")
        if anomalies := check_transactions(self.history):
            self.world.watch.fail(f"{len(anomalies)} anomalies of transactions: {anomalies[:5]}")

    def _newest_coordinator_epoch(self) -> int:
        """No partition may take the marker for one of a replaced coordinator."""
        topic = self.world.images()[-1].topic(TRANSACTION_STATE)
        assert topic is not None
        return max(state.leader_epoch for state in topic.partitions.values())

    def _all_decided(self) -> bool:
        image = self.world.images()[-1]
        topic = image.topic(TX)
        assert topic is not None
        for state in topic.partitions.values():
            node = self.script.broker(state.leader)
            replicas = node.broker.replicas.replicas if node.broker else ()
            mine = [r for r in replicas if r.assignment.topic_id == topic.topic_id and r.core is not None]
            if any(r.last_stable_offset < r.log.log_end_offset for r in mine):
                return False
        return True


async def scenario_11_an_end_that_comes_late_does_not_touch_the_next_transaction(bank: Bank) -> None:
    """KIP-890: EndTxn(T1) is held, the client uses another coordinator and begins T2, and then the first arrives."""
    script, first, second = bank.script, Transaction(process="a/0", number=0), Transaction(process="a/0", number=1)
    first.writes, second.writes = [(0, "a"), (1, "b")], [(0, "c"), (1, "d"), (0, "e")]
    bank.history.transactions += [first, second]

    async def story() -> None:
        async with bank.clients.producer(NAME, timeout_ms=60_000) as producer:
            async with producer.transaction():
                for partition, value in first.writes:
                    await producer.send(TX, value.encode(), partition=partition)
                old = bank.coordinator()
                ends = [await bank.hold_back(old, bank.end_of(producer, committed)) for committed in (True, False)]
                script.isolate(old)  # Another broker takes over; messages to this one are in flight.
                bank.world.net.hold({(CLIENT_HOST, old.host)})
            first.outcome = "ok"
            async with producer.transaction():
                await producer.send(TX, b"c", partition=0)
                assert bank.coordinator() is not old
                bank.world.net.release({(CLIENT_HOST, old.host)})
                script.mend(old)
                await script.until(script.world.is_healthy, "the old coordinator is back")
                await script.administer(lambda admin: admin.elect_leaders())
                await script.until(lambda: bank.coordinator() is old, "the old coordinator leads again")
                await producer.send(TX, b"d", partition=1)  # It has loaded the transactions once it adds a partition.
                assert [await end.arrive() for end in ends] == ["INVALID_PRODUCER_EPOCH"] * 2
                await producer.send(TX, b"e", partition=0)
            second.outcome = "ok"

    await bank.as_client(story)


async def scenario_11_a_batch_that_comes_late_is_not_left_hanging(bank: Bank) -> None:
    """KIP-890: a batch of T1 is in flight, T1 is aborted without it, then it arrives: nothing may wait for its end."""
    first, second = Transaction(process="a/0", number=0), Transaction(process="a/0", number=1)
    first.writes, second.writes = [(0, "a"), (1, "late")], [(0, "b")]
    bank.history.transactions += [first, second]

    async def story() -> None:
        async with bank.clients.producer(NAME) as producer:
            try:
                async with producer.transaction():
                    await producer.send(TX, b"a", partition=0)
                    late = await bank.hold_back(bank.leader_of(1), bank.batch_of(producer, 1, b"late"))
                    raise KeyError("changed my mind")
            except KeyError:
                first.outcome = "fail"
            assert await late.arrive() == "INVALID_PRODUCER_EPOCH"
            async with producer.transaction():
                await producer.send(TX, b"b", partition=0)
            second.outcome = "ok"

    await bank.as_client(story)


async def scenario_11_a_marker_that_comes_late_does_not_touch_the_next_transaction(bank: Bank) -> None:
    """KIP-890: a marker of T1 was sent twice; the second arrives in the middle of T2."""
    first, second = Transaction(process="a/0", number=0), Transaction(process="a/0", number=1)
    first.writes, second.writes = [(0, "a")], [(0, "b"), (0, "c")]
    bank.history.transactions += [first, second]

    async def story() -> None:
        async with bank.clients.producer(NAME) as producer:
            async with producer.transaction():
                await producer.send(TX, b"a", partition=0)
                late = [
                    await bank.hold_back(bank.leader_of(0), bank.marker_of(producer, flag), port=INTERNAL)
                    for flag in (True, False)
                ]
            first.outcome = "ok"
            async with producer.transaction():
                await producer.send(TX, b"b", partition=0)
                assert [await marker.arrive() for marker in late] == ["INVALID_PRODUCER_EPOCH"] * 2
                await producer.send(TX, b"c", partition=0)
            second.outcome = "ok"

    await bank.as_client(story)


async def scenario_11_another_coordinator_ends_what_the_first_had_decided(bank: Bank) -> None:
    """The coordinator dies between the decision and its markers; a marker that it had sent arrives late."""
    script, transactions = bank.script, [Transaction(process="a/0", number=n) for n in range(2)]

    async def story() -> None:
        async with bank.clients.producer(NAME, timeout_ms=60_000) as producer:
            for transaction, (left, right) in zip(transactions, (("a", "b"), ("c", "d")), strict=True):
                transaction.writes = [(0, left), (1, right)]
                bank.history.transactions.append(transaction)
                async with producer.transaction():
                    await producer.send(TX, left.encode(), partition=0)
                    await producer.send(TX, right.encode(), partition=1)
                    old = bank.coordinator()
                    others = [node for node in script.world.brokers if node is not old]
                    if transaction.number == 0:
                        for target in others:
                            bank.world.net.slow[old.host, target.host] = 0.5
                transaction.outcome = "ok"
                if transaction.number == 0:
                    script.world.kill(old)
                    bank.world.net.slow.clear()

    await bank.as_client(story)


async def scenario_11_a_producer_that_was_forgotten_goes_on(bank: Bank) -> None:
    """KIP-360: a partition has forgotten the producer; its next transaction works nevertheless."""
    transactions = [Transaction(process="a/0", number=n) for n in range(2)]

    async def story() -> None:
        async with bank.clients.producer(NAME) as producer:
            for transaction in transactions:
                transaction.writes = [(0, f"v{transaction.number}")]
                bank.history.transactions.append(transaction)
                async with producer.transaction():
                    await producer.send(TX, transaction.writes[0][1].encode(), partition=0)
                transaction.outcome = "ok"
                await bank.script.until(bank._all_decided, "it is decided")
                for node in bank.world.brokers:
                    for replica in node.broker.replicas.replicas if node.broker else ():
                        replica.producers.expire(1 << 60)
                        assert len(replica.producers) == 0

    await bank.as_client(story)


async def chaos_of_kills_pauses_and_cuts(bank: Bank) -> None:
    """Producers that live several lives commit and abort while brokers are killed, paused and cut off."""
    script, world, dice = bank.script, bank.world, Random(bank.world.dice.random())
    tasks = [
        asyncio.ensure_future(
            bank.as_client(lambda n=number: bank.clients.live(f"id-{n}", 0.2), f"10.0.6.{2 + number}")
        )
        for number in range(2)
    ]
    tail = world.loop.create_task(bank.clients.tail("tail"), context=Process("tail", "10.0.6.8").context)
    for _ in range(4):
        await script.pass_time(dice.uniform(0.5, 3))
        node = dice.choice(world.brokers)
        fault = dice.choice(("kill", "pause", "isolate"))
        if fault == "kill":
            world.kill(node)
            await script.pass_time(dice.uniform(0.1, 4))
            world.start(node)
        elif fault == "pause" and node.running:
            script.pause(node)
            await script.pass_time(dice.uniform(0.1, 6))
            script.resume(node)
        elif fault == "isolate":
            script.isolate(node)
            await script.pass_time(dice.uniform(0.1, 6))
            script.mend(node)
    await script.until(world.is_healthy, "all is healthy")
    await script.pass_time(2)
    bank.clients.stopping = True
    await asyncio.gather(*tasks)
    tail.cancel()
    await asyncio.gather(tail, return_exceptions=True)


SCENARIOS = {
    told.__name__: told
    for told in (
        scenario_11_an_end_that_comes_late_does_not_touch_the_next_transaction,
        scenario_11_a_batch_that_comes_late_is_not_left_hanging,
        scenario_11_a_marker_that_comes_late_does_not_touch_the_next_transaction,
        scenario_11_another_coordinator_ends_what_the_first_had_decided,
        scenario_11_a_producer_that_was_forgotten_goes_on,
        chaos_of_kills_pauses_and_cuts,
    )
}


def play_transactions(name: str, seed: int, folder: Path) -> str:
    """Play one story in a new world; return its trace's hash."""
    world = World(folder / "world", seed=seed, settings=Settings())

    async def tell() -> None:
        script = Script(world)
        await script.in_sync()
        bank = Bank(script)
        await bank.open()
        await SCENARIOS[name](bank)
        await bank.judge()

    Life(world).run(tell)
    return world.trace_hash
