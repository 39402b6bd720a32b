"""Process no record twice: after a crash, some records are never processed.

    raftlog dev up --detach
    raftlog topics create readings --partitions 3
    python examples/at_most_once.py readings

Records are committed first and processed afterwards. The next process begins after the last commit and skips records
that were committed but not processed. This is for records that are worthless when they are late or repeated, such as a
reading that the next one replaces.
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
    group_id: str = "at-most-once",
    process: Callable[[Record], Awaitable[None]] = print_record,
    session_timeout_ms: int | None = None,
) -> None:
    """Process records of `topic` at most once, until cancelled."""
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
            records = await consumer.fetch(max_records=100)
            if records and await commit(consumer):
                for record in records:
                    await process(record)


async def commit(consumer: Consumer) -> bool:
    """Commit the fetched records; return False if another member owns them now."""
    while True:
        try:
            await consumer.commit()
        except FencedError as error:
            _log.info("the group has moved on: %s", error)
            return False
        except RetriableError as error:
            _log.info("nothing is processed before it is committed, once more: %s", error)
        else:
            return True


def main() -> None:
    """Run from a command line."""
    parser = argparse.ArgumentParser(description="Print records of a topic, each at most once.")
    parser.add_argument("topic")
    parser.add_argument("--bootstrap", default="http://127.0.0.1:9400")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        asyncio.run(run(asked.bootstrap, asked.topic))
    except KeyboardInterrupt:
        print("Stopped. Records that were committed and not processed are skipped next time.")
    except RaftlogError as error:
        raise SystemExit(f"{error.code}: {error}") from error


if __name__ == "__main__":
    main()
