"""Producers of numbered records, for workloads whose members read them all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

import raftlog
from raftlog.errors import RaftlogError


async def write_numbers(
    bootstrap: Sequence[str],
    topic: str,
    partition: int,
    *,
    dice: random.Random,
    pause_s: float,
    written: list[int],
    is_stopping: Callable[[], bool],
) -> None:
    """Write 0, 1, 2 and so on to one partition until stopped.

    Args:
        pause_s: the mean pause between two records.
        written: by partition, the offset below which every record was acknowledged.
    """
    number = 0
    async with raftlog.Producer(
        list(bootstrap), linger_ms=0, delivery_timeout_ms=8_000, request_timeout_ms=2_000
    ) as producer:
        while not is_stopping():
            with suppress(RaftlogError):  # The final read shows whether the record was appended.
                sent = await producer.send(topic, b"%d" % number, partition=partition)
                written[partition] = sent.offset + 1
            number += 1
            await asyncio.sleep(dice.uniform(0, 2 * pause_s))
