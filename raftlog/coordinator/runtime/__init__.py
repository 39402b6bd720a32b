"""Runs log-backed coordinators: one shard for each partition of an internal compacted topic.

The broker that leads a partition coordinates the keys (groups, transactional ids) that murmur2 maps to it. A new leader
loads the partition's log (`COORDINATOR_LOAD_IN_PROGRESS` until then). From then on it is the only one to decide: each
decision is a batch in the log, and its response is sent once the batch is replicated. When it stops leading, waiting
requests get `NOT_COORDINATOR`, and the state is dropped: the next leader loads it from the log.

How to write a coordinator. Its records are frozen dataclasses with a `KEY` (see `codec`):

    @dataclass(frozen=True, slots=True, kw_only=True)
    class CounterChanged:
        KEY: ClassVar = ("name",)
        VERSION: ClassVar = 1
        name: str
        total: int

    class Counters:                             # fits the protocol `Coordinator[dict[str, int]]`
        codec = RecordCodec([CounterChanged])

        def new_state(self) -> dict[str, int]:
            return {}

        def replay(self, state, record) -> None:            # total: it never raises
            match record:
                case CounterChanged():
                    state[record.name] = record.total
                case Tombstone(kind, key) if kind is CounterChanged:
                    state.pop(key[0], None)

        def on_loaded(self, state, now) -> None: ...        # restart timers
        def on_tick(self, state, now) -> list[LogRecord]:   # time-outs and expiry; tombstones delete
            return []
        def is_behind(self, state, now) -> bool:            # whether the next tick should come soon
            return False

Requests are pure functions of the state and the time; an error that they raise is the response, and changes nothing:

    def add(state: dict[str, int], now: Now, name: str, amount: int) -> Decision[int]:
        total = state.get(name, 0) + amount
        return Decision([CounterChanged(name=name, total=total)], total)

    runtime = CoordinatorRuntime(Counters(), topic="__counters", partitions=..., replicas=replica_manager, clock=clock)
    await runtime.start()
    runtime.update_shards()                                 # after each change of this broker's leaderships
    await runtime.decide("visits", lambda state, now: add(state, now, "visits", 1), timeout_ms=5_000)

A decision must not change the state: it returns records, which `replay` applies. Soft state (the time of a member's
last heartbeat) is the exception: it is in no record, and `on_loaded` resets it. Keep golden files of the records' JSON,
because later versions must read them.
"""

from raftlog.coordinator.runtime.codec import KeyedRecord, LogRecord, RecordCodec, Tombstone, tombstone
from raftlog.coordinator.runtime.core import Coordinator, Decision, Now
from raftlog.coordinator.runtime.runtime import CoordinatorRuntime
from raftlog.coordinator.runtime.shard import Shard

__all__ = [
    "Coordinator",
    "CoordinatorRuntime",
    "Decision",
    "KeyedRecord",
    "LogRecord",
    "Now",
    "RecordCodec",
    "Shard",
    "Tombstone",
    "tombstone",
]
