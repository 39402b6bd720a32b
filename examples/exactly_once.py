"""Consume, transform, produce: exactly once, even if a process or broker dies in the middle.

    raftlog dev up --detach
    raftlog topics create orders --partitions 3
    raftlog topics create invoices --partitions 3
    python examples/exactly_once.py orders invoices

The output records and the offsets of their input go into one transaction: either both are committed, or neither. Start
as many of these as there are partitions, each with an id of its own that it keeps after a restart; kill any of them.
Read `invoices` with isolation="read_committed".
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Callable

from raftlog import Consumer, FencedError, Producer, RaftlogError, Record, RetriableError, TransactionAbortedError

_log = logging.getLogger(__name__)


def make_invoice(record: Record) -> bytes:
    """Return the output of one record."""
    return b"invoice for " + (record.value or b"nothing")


async def run(
    bootstrap: str,
    source: str,
    target: str,
    *,
    transactional_id: str,
    group_id: str = "invoicing",
    transform: Callable[[Record], bytes] = make_invoice,
) -> None:
    """Turn every record of `source` into one of `target`, until cancelled.

    Raises:
        FencedError: another process was started with this transactional id.
    """
    consumer = Consumer(
        bootstrap,
        source,
        group_id=group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,  # The transaction commits the offsets.
        isolation="read_committed",
    )
    producer = Producer(bootstrap, transactional_id=transactional_id, transaction_timeout_ms=10_000)
    async with producer, consumer:
        await relay(consumer, producer, target, transform)


async def relay(consumer: Consumer, producer: Producer, target: str, transform: Callable[[Record], bytes]) -> None:
    """Read, transform and write until cancelled; see `run`."""
    while True:
        try:
            await producer.init_transactions()  # Ends what a killed process left open: its records wait for that.
            await step(consumer, producer, target, transform)
        except FencedError as error:
            if error.code == "PRODUCER_FENCED":
                raise
            _log.info("the group has moved on: %s", error)
            await rewind(consumer)
        except (TransactionAbortedError, RetriableError) as error:
            _log.info("once more: %s", error)
            await rewind(consumer)


async def step(consumer: Consumer, producer: Producer, target: str, transform: Callable[[Record], bytes]) -> None:
    """Turn the next few records into a transaction."""
    records = await consumer.fetch(max_records=500, max_wait_ms=500)
    if not records:
        return
    async with producer.transaction() as transaction:
        for record in records:
            producer.send_nowait(target, transform(record), key=record.key)
        read = {(record.topic, record.partition): record.offset + 1 for record in records}
        await transaction.send_offsets(read, consumer.group_metadata)


async def rewind(consumer: Consumer) -> None:
    """Seek to the committed offsets: no record that was read since then has had an effect."""
    while True:
        try:
            return await consumer.seek_to_committed()
        except (RetriableError, FencedError) as error:
            _log.info("cannot go back yet: %s", error)
            await asyncio.sleep(0.2)


def main() -> None:
    """Run from a command line."""
    parser = argparse.ArgumentParser(description="Turn every record of one topic into one of another, exactly once.")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--bootstrap", default="http://127.0.0.1:9400")
    parser.add_argument("--id", default="invoicing-1", help="the transactional id: one for each process, kept for ever")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        asyncio.run(run(asked.bootstrap, asked.source, asked.target, transactional_id=asked.id))
    except KeyboardInterrupt:
        print("Stopped. The open transaction is aborted, and its records are processed next time.")
    except RaftlogError as error:
        raise SystemExit(f"{error.code}: {error}") from error


if __name__ == "__main__":
    main()
