"""A process that consumes in a group and logs its work: `P` a record is processed, `C` a commit was made.

Usage: python group_worker.py BOOTSTRAP TOPIC GROUP FILE
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TextIO

from raftlog import Consumer
from raftlog.errors import FencedError, RetriableError

BATCH = 5


async def work(bootstrap: str, topic: str, group: str, out: TextIO) -> None:
    def note(kind: str, partition: int, offset: int) -> None:
        out.write(f"{kind} {partition} {offset} {time.monotonic_ns()}\n")
        out.flush()

    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "session_timeout_ms": 2_000}
    async with Consumer(bootstrap, topic, group_id=group, **options) as consumer:
        note("J", 0, 0)
        while True:
            records = await consumer.fetch(max_records=BATCH)
            for record in records:
                await asyncio.sleep(0.001)
                note("P", record.partition, record.offset)
            if not records:
                continue
            try:
                await consumer.commit()
            except (FencedError, RetriableError) as error:
                print(error.code, error.message, file=sys.stderr, flush=True)  # Other members read it again.
            else:
                note("C", records[-1].partition, records[-1].offset + 1)


if __name__ == "__main__":
    with open(sys.argv[4], "w", buffering=1) as file:  # noqa: PTH123
        asyncio.run(work(sys.argv[1], sys.argv[2], sys.argv[3], file))
