"""Producer ids: issued from blocks that the controller allocates, and checked when a producer uses one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from raftlog.broker.controller_channel import ControllerChannel
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError, RetriableError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import ProducerId
from raftlog.partition.local_broker import LocalBroker
from raftlog.wire.controller import ProducerIdBlock, ProducerIdBlockRequest
from raftlog.wire.producer_ids import FIRST, number_of, shuffled

LAG = 1_000_000
"""An id up to this far ahead of the metadata may have been issued meanwhile; one further ahead was not."""


class ProducerIds:
    """Issues each id once. The rest of a block is never used after the process exits."""

    def __init__(self, local: LocalBroker, channel: ControllerChannel) -> None:
        self._local = local
        self._channel = channel
        self._block = ProducerIdBlock(first=0, count=0)
        self._used = 0
        self._asking = asyncio.Lock()

    async def take(self, *, transactional: bool = False) -> ProducerId:
        """Return a fresh id.

        Args:
            transactional: the id is for a transaction coordinator.

        Raises:
            RetriableError: this broker is not registered yet, or no controller answers.
        """
        async with self._asking:
            if self._used >= self._block.count:
                await self._ask()
            number = self._block.first + self._used
            self._used += 1
        key = bytes.fromhex(self._block.key)
        return shuffled(key, number, transactional=transactional) if key else number

    async def take_transactional(self) -> ProducerId:
        """Return a fresh id for a transaction coordinator; see `take`."""
        return await self.take(transactional=True)

    async def _ask(self) -> None:
        if self._local.broker_epoch < 0:
            raise RetriableError("this broker is not registered yet", code=ErrorCode.BROKER_NOT_AVAILABLE)
        request = ProducerIdBlockRequest(broker_id=self._local.broker_id, broker_epoch=self._local.broker_epoch)
        self._block, self._used = await self._channel.producer_ids(request), 0


class IssuedIds:
    """Checks whether the cluster issued a producer id.

    Args:
        image: returns the newest metadata; raises if there is none yet.
        catch_up: waits until this broker has applied all metadata that is committed now.
    """

    def __init__(self, image: Callable[[], MetadataImage], catch_up: Callable[[], Awaitable[None]]) -> None:
        self._image = image
        self._catch_up = catch_up
        self._catching_up = asyncio.Lock()
        self._begun = 0
        """The number of the last catch-up that began."""
        self._ended: tuple[int, RaftlogError | None] = (0, None)
        """The number of the last catch-up that ended, and its error."""

    async def require(self, producer_id: ProducerId) -> None:
        """Raise if the cluster did not issue an id.

        Raises:
            InvalidRequestError: UNKNOWN_PRODUCER_ID.
            RetriableError: the id may be new, and no controller answered.
        """
        ahead = numbers_ahead(self._image(), producer_id)
        if 0 <= ahead < LAG:
            await self._learn(producer_id)
            ahead = numbers_ahead(self._image(), producer_id)
        if ahead >= 0:
            raise InvalidRequestError(
                f"producer id {producer_id} was not issued by this cluster; nothing was appended: request one "
                "(POST /v1/producers), or send without one",
                code=ErrorCode.UNKNOWN_PRODUCER_ID,
                details={"producer_id": producer_id},
            )

    async def _learn(self, producer_id: ProducerId) -> None:
        """Catch up with the metadata. Concurrent callers share the next catch-up, so invented ids cost few requests."""
        begun = self._begun
        async with self._catching_up:
            number, failure = self._ended
            if numbers_ahead(self._image(), producer_id) < 0:
                return
            if number <= begun:
                self._begun = number = self._begun + 1
                failure = None
                try:
                    await self._catch_up()
                except RaftlogError as error:
                    failure = error
                self._ended = number, failure
        if failure is not None:
            raise RetriableError(f"cannot check now whether the producer id was issued: {failure.message}")


def numbers_ahead(image: MetadataImage, producer_id: ProducerId) -> int:
    """Return how far an id is ahead of the ids that an image knows as issued; negative if it was issued."""
    if producer_id < 0:
        return LAG
    if producer_id < FIRST:
        return producer_id - (image.plain_producer_ids if image.producer_id_key else image.next_producer_id)
    if not image.producer_id_key:
        return 0  # The first block may be under way.
    number = number_of(bytes.fromhex(image.producer_id_key), producer_id)
    return number - image.next_producer_id if number >= image.plain_producer_ids else LAG
