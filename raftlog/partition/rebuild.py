"""Rebuilds a damaged, compacted log that this broker is relied upon for, with another replica's log (docs/adr/0017)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from raftlog.model import Offset
from raftlog.partition.storage.rebuilt_log import RebuiltLog
from raftlog.wire.repair import Holding, RepairResponse

CHUNK_BYTES = 4 << 20
Ask = Callable[[Offset, int], Awaitable[tuple[RepairResponse, bytes] | None]]
"""Request batches from an offset on, with a limit in bytes, from the other replica; None: no answer."""


async def rebuild(log: RebuiltLog, ask: Ask, ask_others: Sequence[Ask]) -> bool:
    """Write a complete log beside the damaged one; return False if this is not possible now.

    The copy of the other replica's log counts only if that log was not compacted meanwhile: a pass in between may have
    removed a tombstone whose earlier records were copied before.

    Args:
        ask_others: ask the further replicas.
    """
    answer = await ask(log.end, 1)
    if answer is None or (first := answer[0]).first_offset < 0 or (end := await _end(log, first, ask_others)) is None:
        return False
    if not await asyncio.to_thread(log.has_own_batches, first.log_end_offset):
        return False
    await asyncio.to_thread(log.begin, first.first_offset, first.log_start_offset, end)
    while log.next_offset < log.end:
        if (answer := await ask(log.next_offset, CHUNK_BYTES)) is None:
            return False
        response, data = answer
        if not response.generation or response.generation != first.generation:
            return False
        if response.holding is Holding.ABSENT and response.log_end_offset == log.next_offset:
            break
        if response.holding is not Holding.WHOLE or not response.from_log:
            return False
        if not await asyncio.to_thread(log.append, data):
            return False
    last = await ask(log.end, 1)
    if last is None or last[0].generation != first.generation:
        return False
    return await asyncio.to_thread(log.complete, first.high_watermark)


async def _end(log: RebuiltLog, first: RepairResponse, ask_others: Sequence[Ask]) -> Offset | None:
    """Return where the rebuilt log must end; None if that is not known.

    A replica that is relied upon has every record that another one knows to be committed. If its own end is not
    certain, the other replica's records behind it are kept, and no further replica may have more.
    """
    if first.high_watermark > log.end and log.is_end_certain:
        return None
    if log.is_end_certain:
        return log.end
    if first.log_end_offset < log.end:
        return None
    for ask in ask_others:
        answer = await ask(first.log_end_offset, 1)
        if answer is None or answer[0].holding in (Holding.WHOLE, Holding.OTHER):
            return None
    return first.log_end_offset
