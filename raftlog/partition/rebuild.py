"""Rebuilds a damaged, compacted log that this broker is relied upon for, with another replica's log (docs/adr/0017)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from raftlog.model import Offset
from raftlog.partition.storage.rebuilt_log import RebuiltLog
from raftlog.wire.repair import Holding, RepairResponse

CHUNK_BYTES = 4 << 20
Ask = Callable[[Offset, int], Awaitable[tuple[RepairResponse, bytes] | None]]
"""Request batches from an offset on, with a limit in bytes, from the other replica; None: no answer."""


async def rebuild(log: RebuiltLog, ask: Ask) -> bool:
    """Write a complete log beside the damaged one; return False if this is not possible now.

    The copy of the other replica's log counts only if that log was not compacted meanwhile: a pass in between may have
    removed a tombstone whose earlier records were copied before.
    """
    answer = await ask(log.end, 1)
    if answer is None or answer[0].log_start_offset < 0:
        return False
    first = answer[0]
    await asyncio.to_thread(log.begin, first.log_start_offset)
    while log.next_offset < log.end:
        if (answer := await ask(log.next_offset, CHUNK_BYTES)) is None:
            return False
        response, data = answer
        if response.holding is Holding.ABSENT and response.log_end_offset == log.next_offset:
            break
        if response.holding is not Holding.WHOLE or not response.from_log:
            return False
        if not await asyncio.to_thread(log.append, data):
            return False
    last = await ask(log.end, 1)
    if last is None or not first.generation or last[0].generation != first.generation:
        return False
    return await asyncio.to_thread(log.complete, first.high_watermark)
