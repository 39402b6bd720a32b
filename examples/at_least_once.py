"""Process every record, and never skip one: after a crash, some records are processed again.

    raftlog dev up --detach
    raftlog topics create orders --partitions 3
    python examples/at_least_once.py orders

Records are processed first and committed afterwards. The next process begins at the last commit and processes all
records since then once more. So processing a record twice must do no harm, as with an upsert or an id that the receiver
knows.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Awaitable, Callable

from raftlog import Consumer, FencedError, RaftlogError, Record, RetriableError

_log = logging.getLogger(__name__)


async def print_record(record: Record) -> None:
    """Process one record."""
    print(f"{record.topic}-{record.partition} @{record.offset}: {record.value!r}", flush=True)


async def run(
    bootstrap: str,
    topic: str,
    *,
    group_id: str = "at-least-once",
    process: Callable[[Record], Awaitable[None]] = print_record,
    session_timeout_ms: int | None = None,
) -> None:
    """Process every record of `topic` at least once, until cancelled."""
    consumer = Consumer(
        bootstrap,
        topic,
        group_id=group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=session_timeout_ms,
    )
    async with consumer:
        while True:
            for record in await consumer.fetch(max_records=100):
                await process(record)
            try:
                await consumer.commit()  # Only now: an unprocessed record must not be skipped.
            except (FencedError, RetriableError) as error:
                _log.info("not committed, others or the next commit will: %s", error)


def main() -> None:
    """Run from a command line."""
    parser = argparse.ArgumentParser(description="Print every record of a topic at least once.")
    parser.add_argument("topic")
    parser.add_argument("--bootstrap", default="http://127.0.0.1:9400")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        asyncio.run(run(asked.bootstrap, asked.topic))
    except KeyboardInterrupt:
        print("Stopped. Records that were not committed are processed again next time.")
    except RaftlogError as error:
        raise SystemExit(f"{error.code}: {error}") from error


if __name__ == "__main__":
    main()
