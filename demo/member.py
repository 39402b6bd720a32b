"""One member of the group that reads everything back: a process of its own, so that it can be killed.

Standard output is one JSON object a line: first `{"joined": true}`. After a line on standard input comes `{"read":
[{"partition", "offsets", "rows", "checksums", "carriers", "distances"}]}` for the processed records, and `{"committed":
{partition: offset}}` once they are committed.
"""

from __future__ import annotations

import asyncio
import sys
import zlib
from typing import Any

import orjson
import pyarrow as pa

import raftlog
from demo.flights import TOPIC

GROUP = "readback"
SESSION_MS = 2_000
STEP_BYTES = 128 << 10
"""Small, so that a kill interrupts the work."""


async def read(bootstrap: str) -> None:
    """Read, process, report and commit, without end."""
    async with raftlog.Consumer(
        bootstrap,
        TOPIC,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        partition_max_bytes=STEP_BYTES,
    ) as consumer:
        _say({"joined": True})
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        while True:
            table = await consumer.fetch_arrow()
            if table.num_rows == 0:
                continue
            _say({"read": [_processed(table, partition) for partition in sorted(set(table["partition"].to_pylist()))]})
            await _commit(consumer)


async def _commit(consumer: raftlog.Consumer) -> None:
    positions = {partition: consumer.position(*partition) for partition in consumer.assignment}
    try:
        await consumer.commit()
    except (raftlog.FencedError, raftlog.RetriableError) as error:
        sys.stderr.write(f"not committed, so it will be read again: {error}\n")
    else:
        _say({"committed": {str(partition.partition): offset for partition, offset in positions.items()}})


def _processed(table: pa.Table, partition: int) -> dict[str, Any]:
    chosen = table.filter(pa.compute.equal(table["partition"], partition))
    keys, values = chosen["key"].to_pylist(), chosen["value"].to_pylist()
    flights = [orjson.loads(value) for value in values]
    return {
        "partition": partition,
        "offsets": chosen["offset"].to_pylist(),
        "rows": [flight["row"] for flight in flights],
        "checksums": [zlib.crc32(value, zlib.crc32(key)) for key, value in zip(keys, values, strict=True)],
        "carriers": [flight["carrier"] for flight in flights],
        "distances": [flight["distance"] for flight in flights],
    }


def _say(message: object) -> None:
    sys.stdout.buffer.write(orjson.dumps(message) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(read(sys.argv[1]))
