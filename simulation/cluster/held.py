"""Producers that speak Kafka's protocol, with transactions of the first kind (TV1): they keep their epoch.

One has the methods of raftlog's own producer that `chaos.transactions` uses, and does what librdkafka does. It adds
partitions before it writes them, and numbers records through all transactions of its epoch. It repeats what had no
answer, and begins again with its identity (KIP-360) after what it cannot know.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Self

from raftlog.errors import (
    ErrorCode,
    FencedError,
    InvalidRequestError,
    RaftlogError,
    RetriableError,
    UnknownOutcomeError,
)
from raftlog.model import Address
from raftlog.record.kafka.header import MAGIC, TRANSACTIONAL, KafkaHeader, assemble
from raftlog.record.kafka.loop import put_record
from raftlog.wire.kafka.api_keys import APIS
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.framing import RequestHeader, decode_response, encode_request
from raftlog.wire.kafka.messages import add_partitions_to_txn as adding
from raftlog.wire.kafka.messages import produce
from raftlog.wire.kafka.messages.end_txn import EndTxnRequest
from raftlog.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from raftlog.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from raftlog.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic

SHARE: Final = 1 / 2
"""The share of worlds with transactions in which some of their producers are such ones."""
LIVES: Final = 0.7
"""The share of lives, in such a world. The other lives of the same transactional ids use raftlog's own producer."""
_PRODUCE, _METADATA, _FIND, _INIT, _ADD, _END = (0, 9), (3, 9), (10, 3), (22, 4), (24, 3), (26, 2)
"""APIs, each with the version that the producer uses."""
_ANSWER_S, _DELIVERY_S, _PAUSE_S = 2.0, 8.0, 0.1
_AGAIN: Final = {
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.NOT_LEADER_OR_FOLLOWER,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.BROKER_NOT_AVAILABLE,
}
_FENCED: Final = {KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.INVALID_PRODUCER_ID_MAPPING}


def drawn(seed: int) -> bool:
    """Draw whether a world has such producers, by dice of its own: other worlds do not change."""
    return random.Random(f"held {seed}").random() < SHARE  # noqa: S311  (a schedule, not a secret)


class HeldProducer:
    """A producer of one transactional id. A context manager."""

    def __init__(self, bootstrap: Sequence[str], name: str, *, timeout_ms: int = 3_000) -> None:
        self._bootstrap = [Address.parse(url.removeprefix("http://")) for url in bootstrap]
        self._name = name
        self._timeout_ms = timeout_ms
        self._who: tuple[int, int] | None = None
        self._knows = False
        """Whether it knows what became of everything that it sent since it got its identity."""
        self._sequences: dict[int, int] = {}
        self._added: set[int] = set()
        self._dead: FencedError | None = None
        self._asked = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit what was sent within, or abort it after an exception."""
        await self._begin()
        self._added.clear()
        try:
            yield
        except FencedError:
            raise
        except BaseException:
            await self._abort()
            raise
        if self._added:
            await self._end(committed=True)

    async def send(self, topic: str, value: bytes, *, partition: int) -> None:
        """Append one record.

        Raises:
            UnknownOutcomeError: no answer said so in time.
            FencedError: another producer has taken over the id, or the transaction has timed out.
        """
        if partition not in self._added:
            self._added.add(partition)  # Perhaps: then the transaction has to be ended, too.
            await self._retried(lambda: self._add(topic, partition))
        await self._retried(lambda: self._append(topic, partition, value))
        self._sequences[partition] = self._sequences.get(partition, 0) + 1

    async def _begin(self) -> None:
        """Get an identity, unless the last one serves."""
        if self._dead is not None:
            raise self._dead
        if self._who is not None and self._knows:
            return
        given, self._knows = self._who or (-1, -1), False
        try:
            self._who = await self._retried(lambda: self._init(given))
        except UnknownOutcomeError as error:
            raise RetriableError(error.message, code=ErrorCode.REQUEST_TIMED_OUT) from error
        self._sequences.clear()
        self._knows = True

    async def _abort(self) -> None:
        if self._added and self._knows:
            with suppress(RaftlogError):
                await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        assert self._who is not None
        message = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self._who[0],
            producer_epoch=self._who[1],
            committed=committed,
        )

        async def end() -> None:
            _require((await self._of_coordinator(_END, message)).error_code)

        await self._retried(end)

    async def _retried(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do it until it is done, or refused; with an error, what the producer knows ends.

        Raises:
            UnknownOutcomeError: an earlier attempt had no answer, or no attempt did in time.
        """
        loop, is_certain = asyncio.get_running_loop(), True
        deadline = loop.time() + _DELIVERY_S
        while True:
            try:
                return await work()
            except FencedError as error:
                self._dead = error
                if is_certain:
                    raise
                raise UnknownOutcomeError(f"fenced after an attempt without an answer: {error.message}") from error
            except InvalidRequestError as error:
                self._knows = False
                if is_certain:
                    raise
                raise UnknownOutcomeError(f"refused after an attempt without an answer: {error.message}") from error
            except (RetriableError, OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                is_certain, problem = False, repr(error)  # Also after an answer: the coordinator may not know either.
            if loop.time() > deadline:
                self._knows = False
                raise UnknownOutcomeError(f"not within {_DELIVERY_S:g} s: {problem}")
            await asyncio.sleep(_PAUSE_S)

    async def _init(self, given: tuple[int, int]) -> tuple[int, int]:
        message = InitProducerIdRequest(
            transactional_id=self._name,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=given[0],
            producer_epoch=given[1],
        )
        answer = await self._of_coordinator(_INIT, message)
        _require(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    async def _add(self, topic: str, partition: int) -> None:
        assert self._who is not None
        message = adding.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self._who[0],
            v3_and_below_producer_epoch=self._who[1],
            v3_and_below_topics=[adding.AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        answer = await self._of_coordinator(_ADD, message)
        _require(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    async def _append(self, topic: str, partition: int, value: bytes) -> None:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        known = await _ask(self._any(), _METADATA, asked)
        brokers = {one.node_id: Address(one.host, one.port) for one in known.brokers}
        leaders = {one.partition_index: one.leader_id for one in known.topics[0].partitions}
        leader = brokers.get(leaders.get(partition, -1))
        if leader is None:
            raise RetriableError("there is no leader", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        data = produce.PartitionProduceData(index=partition, records=self._batch(partition, value))
        message = produce.ProduceRequest(
            transactional_id=self._name,
            acks=-1,
            timeout_ms=1_500,
            topic_data=[produce.TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = await _ask(leader, _PRODUCE, message)
        _require(answer.responses[0].partition_responses[0].error_code)

    def _batch(self, partition: int, value: bytes) -> bytes:
        assert self._who is not None
        record, now_ms = bytearray(), time.time_ns() // 1_000_000
        put_record(record, timestamp_delta=0, offset_delta=0, key=None, value=value, headers=())
        header = KafkaHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=TRANSACTIONAL,
            last_offset_delta=0,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
            producer_id=self._who[0],
            producer_epoch=self._who[1],
            base_sequence=self._sequences.get(partition, 0),
            record_count=1,
        )
        return bytes(assemble(header, record))

    async def _of_coordinator(self, api: tuple[int, int], message: Any) -> Any:
        found = await _ask(self._any(), _FIND, FindCoordinatorRequest(key=self._name, key_type=1))
        _require(found.error_code)
        return await _ask(Address(found.host, found.port), api, message)

    def _any(self) -> Address:
        """Return one broker after the other."""
        self._asked += 1
        return self._bootstrap[self._asked % len(self._bootstrap)]


def _require(number: int) -> None:
    """Raise the error of a number as raftlog's.

    Raises:
        FencedError: PRODUCER_FENCED.
        RetriableError: it may work later.
        InvalidRequestError: otherwise.
    """
    if number in _FENCED:
        raise FencedError(f"error {number}", code=ErrorCode.PRODUCER_FENCED)
    if number in _AGAIN:
        raise RetriableError(f"error {number}", code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if number:
        raise InvalidRequestError(f"error {number}")


async def _ask(address: Address, api: tuple[int, int], message: Any) -> Any:
    """Send one request by a connection of its own, and return the answer."""
    key, version = api
    async with asyncio.timeout(_ANSWER_S):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        try:
            for part in encode_request(RequestHeader(key, version, 1, "held"), message):
                writer.write(bytes(part))
            length = int.from_bytes(await reader.readexactly(4))
            return decode_response(APIS[key], version, await reader.readexactly(length))[1]
        finally:
            writer.close()
