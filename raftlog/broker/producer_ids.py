"""Hands out producer ids from blocks that the controller gives, and says which ids were given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from raftlog.broker.controller_channel import ControllerChannel
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError, RetriableError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import BrokerEpoch, BrokerId, ProducerId
from raftlog.wire.controller import ProducerIdBlock, ProducerIdBlockRequest
from raftlog.wire.producer_ids import FIRST, number_of, shuffled

LAG = 1_000_000
"""A number that is so far ahead of the metadata may have been given meanwhile; one further ahead is invented."""


class ProducerIds:
    """Each id is handed out once; what is left of a block when the process ends is never used."""

    def __init__(
        self, *, broker_id: BrokerId, broker_epoch: Callable[[], BrokerEpoch], channel: ControllerChannel
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._block = ProducerIdBlock(first=0, count=0)
        self._used = 0
        self._asking = asyncio.Lock()

    async def take(self, *, transactional: bool = False) -> ProducerId:
        """Return a fresh id.

        Args:
            transactional: it is for a transaction coordinator.

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
        epoch = self._broker_epoch()
        if epoch < 0:
            raise RetriableError("this broker is not registered yet", code=ErrorCode.BROKER_NOT_AVAILABLE)
        request = ProducerIdBlockRequest(broker_id=self._broker_id, broker_epoch=epoch)
        self._block, self._used = await self._channel.producer_ids(request), 0


class GivenIds:
    """Tells ids that the cluster has given from those that somebody invented.

    Args:
        image: the newest metadata; raises if there is none yet.
        catch_up: waits until all metadata there is now is known here.
    """

    def __init__(self, image: Callable[[], MetadataImage], catch_up: Callable[[], Awaitable[None]]) -> None:
        self._image = image
        self._catch_up = catch_up
        self._catching_up = asyncio.Lock()
        self._begun = 0
        """How often this broker has caught up for an id."""
        self._ended: tuple[int, RaftlogError | None] = (0, None)
        """The last time that came to its end, and how."""

    async def require(self, producer_id: ProducerId) -> None:
        """Require that the cluster has given an id.

        Raises:
            InvalidRequestError: UNKNOWN_PRODUCER_ID.
            RetriableError: it may have been given a moment ago, and no controller says so.
        """
        ahead = numbers_ahead(self._image(), producer_id)
        if 0 <= ahead < LAG:
            await self._learn(producer_id)
            ahead = numbers_ahead(self._image(), producer_id)
        if ahead >= 0:
            raise InvalidRequestError(
                f"producer id {producer_id} was not given by this cluster; nothing was appended: ask for one "
                "(POST /v1/producers), or send without one",
                code=ErrorCode.UNKNOWN_PRODUCER_ID,
                details={"producer_id": producer_id},
            )

    async def _learn(self, producer_id: ProducerId) -> None:
        """Catch up. Who comes meanwhile shares the next time: whoever invents ids makes one request at a time of it."""
        known = self._begun
        async with self._catching_up:
            number, failure = self._ended
            if numbers_ahead(self._image(), producer_id) < 0:
                return
            if number <= known:
                self._begun = number = self._begun + 1
                failure = None
                try:
                    await self._catch_up()
                except RaftlogError as error:
                    failure = error
                self._ended = number, failure
        if failure is not None:
            raise RetriableError(f"whether the producer id was given is not known now: {failure.message}")


def numbers_ahead(image: MetadataImage, producer_id: ProducerId) -> int:
    """Return how far an id is ahead of those that were given as far as an image knows; negative if it was given."""
    if producer_id < 0:
        return LAG
    if producer_id < FIRST:
        return producer_id - (image.plain_producer_ids if image.producer_id_key else image.next_producer_id)
    if not image.producer_id_key:
        return 0  # Perhaps the first one is given right now.
    number = number_of(bytes.fromhex(image.producer_id_key), producer_id)
    return number - image.next_producer_id if number >= image.plain_producer_ids else LAG
