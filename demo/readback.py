"""Read everything back with the async client, and hold it against the source."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import orjson

import raftlog
from demo.flights import TOPIC, Flights


@dataclass(frozen=True, slots=True)
class ReadbackResult:
    """What the log holds."""

    records: int
    lost: int
    duplicated: int
    altered: int
    """Records whose bytes differ from what was sent."""
    reordered: int
    """Records of a carrier that come before an earlier one."""
    seconds: float
    by_carrier: dict[str, tuple[int, int]]


async def read_back(bootstrap: str, flights: Flights, *, progress: Callable[[int], None]) -> ReadbackResult:
    """Read the whole topic from the earliest offset to the high watermarks at the start."""
    started = time.perf_counter()
    seen: Counter[int] = Counter()
    altered = reordered = 0
    last_row: dict[bytes, int] = {}
    figures: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    async with raftlog.Consumer(bootstrap, TOPIC, start="earliest") as consumer:
        ends = await consumer.end_offsets()
        while any(consumer.position(*partition) < end for partition, end in ends.items()):
            table = await consumer.fetch_arrow()
            for key, value in zip(table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True):
                flight = orjson.loads(value)
                row = flight["row"]
                seen[row] += 1
                altered += flights.values[row] != value or flights.keys[row] != key
                reordered += last_row.get(key, -1) > row
                last_row[key] = row
                figures[flight["carrier"]][0] += 1
                figures[flight["carrier"]][1] += flight["distance"]
            progress(table.num_rows)
    return ReadbackResult(
        records=seen.total(),
        lost=len(flights.values) - len(seen),
        duplicated=seen.total() - len(seen),
        altered=altered,
        reordered=reordered,
        seconds=time.perf_counter() - started,
        by_carrier={carrier: (count, miles) for carrier, (count, miles) in figures.items()},
    )
