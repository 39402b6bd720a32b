"""A controller on a quorum in memory, for tests of its decisions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from metadata_support import MemoryQuorum

from raftlog.config import BrokerConfig, ControllerConfig
from raftlog.metadata_quorum.active_controller import Controller
from raftlog.metadata_quorum.records import FEATURE_LEVEL
from raftlog.model import Address
from raftlog.wire.controller import HeartbeatRequest, RegisterBrokerRequest


class ManualClock:
    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_us(self) -> int:
        return self.now_ms * 1_000


class Bench:
    """A controller on a quorum of one, with a clock that is set by hand."""

    def __init__(self, cluster_id: str = "c") -> None:
        self.clock = ManualClock()
        self.gone = False
        self.controller = Controller(
            node_id=101,
            cluster_id=cluster_id,
            config=ControllerConfig(session_check_interval_ms=5, broker_session_timeout_ms=3_000),
            broker_defaults=BrokerConfig(),
            clock=self.clock,
            is_down=self._is_down,
        )
        self.quorum = MemoryQuorum(self.controller)
        self.controller.attach(self.quorum)

    async def _is_down(self, _: Address) -> bool:
        return self.gone

    async def active(self) -> None:
        await self.until(lambda: self.controller.is_active)

    async def until(self, holds) -> None:
        async with asyncio.timeout(5):
            while not holds():
                await asyncio.sleep(0)

    async def join(self, broker: int) -> int:
        registered = await self.controller.register(
            RegisterBrokerRequest(
                cluster_id="c",
                broker_id=broker,
                incarnation_id=f"i{broker}",
                public=Address("h", 1),
                internal=Address("h", 2),
                max_feature_level=FEATURE_LEVEL,
            )
        )
        await self.beat(broker, registered.broker_epoch)
        return registered.broker_epoch

    async def beat(self, broker: int, epoch: int) -> None:
        request = HeartbeatRequest(broker_id=broker, broker_epoch=epoch, metadata_offset=10_000)
        await self.controller.heartbeat(request)


@asynccontextmanager
async def joined() -> AsyncIterator[Bench]:
    """An active controller with one broker."""
    bench = Bench()
    await bench.quorum.start()
    await bench.active()
    await bench.join(1)
    try:
        yield bench
    finally:
        await bench.controller.close()


async def turns(count: int = 10) -> None:
    """Let tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)
