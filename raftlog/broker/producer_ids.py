"""Hands out producer ids from blocks that the controller gives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from raftlog.broker.controller_channel import ControllerChannel
from raftlog.errors import ErrorCode, RetriableError
from raftlog.model import BrokerEpoch, BrokerId, ProducerId
from raftlog.wire.controller import ProducerIdBlockRequest


class ProducerIds:
    """Each id is handed out once; what is left of a block when the process ends is never used."""

    def __init__(
        self, *, broker_id: BrokerId, broker_epoch: Callable[[], BrokerEpoch], channel: ControllerChannel
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._next: ProducerId = 0
        self._end: ProducerId = 0
        self._asking = asyncio.Lock()

    async def take(self) -> ProducerId:
        """Return a fresh id.

        Raises:
            RetriableError: this broker is not registered yet, or no controller answers.
        """
        async with self._asking:
            if self._next >= self._end:
                await self._ask()
            self._next += 1
            return self._next - 1

    async def _ask(self) -> None:
        epoch = self._broker_epoch()
        if epoch < 0:
            raise RetriableError("this broker is not registered yet", code=ErrorCode.BROKER_NOT_AVAILABLE)
        request = ProducerIdBlockRequest(broker_id=self._broker_id, broker_epoch=epoch)
        block = await self._channel.producer_ids(request)
        self._next, self._end = block.first, block.first + block.count
