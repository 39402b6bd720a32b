"""Reassignments in progress, with the progress that only partition leaders know."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from raftlog.broker.context import BrokerContext
from raftlog.errors import RaftlogError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import Address, BrokerId
from raftlog.runtime import in_slices
from raftlog.wire import paths
from raftlog.wire.admin import Reassignment, ReassignmentsResponse

_SLICE = 512
LEADERS_TIMEOUT_MS = 1_000
"""How long a leader may take to answer; its reassignments are returned without progress otherwise."""


async def moving(context: BrokerContext, image: MetadataImage, ask_leaders: bool) -> tuple[Reassignment, ...]:
    """Return the reassignments in progress.

    Args:
        ask_leaders: request the progress from the brokers that lead the partitions.
    """
    moves, leaders = list[Reassignment](), dict[BrokerId, None]()
    under_way = [entry for entry in image.partitions() if entry[2].adding or entry[2].removing]
    async for topic, number, state in in_slices(under_way, _SLICE):
        leaders[state.leader] = None
        moves.append(
            Reassignment(
                topic=topic.topic,
                partition=number,
                replicas=state.replicas,
                adding=state.adding,
                removing=state.removing,
                isr=state.isr,
                records_left=_records_left(context, topic.topic, number),
            )
        )
    others = [image.brokers[leader].public for leader in leaders if leader in image.brokers]
    if not ask_leaders or all(move.records_left is not None for move in moves):
        return tuple(moves)
    answers = await asyncio.gather(*(_ask(context, address) for address in others))
    known = dict[tuple[str, int], int]()
    for answer in answers:
        async for move in in_slices(answer, _SLICE):
            if move.records_left is not None:
                known[move.topic, move.partition] = move.records_left
    return tuple(
        [
            replace(move, records_left=known.get((move.topic, move.partition), move.records_left))
            async for move in in_slices(moves, _SLICE)
        ]
    )


def _records_left(context: BrokerContext, topic: str, partition: int) -> int | None:
    try:
        replica = context.replicas.leader(topic, partition)
    except RaftlogError:
        return None
    core, end = replica.require_leader(), replica.log.log_end_offset
    ends = [core.followers[broker].end_offset for broker in replica.state.adding if broker in core.followers]
    return max((end - max(known, replica.log.log_start_offset) for known in ends), default=0)


async def _ask(context: BrokerContext, address: Address) -> tuple[Reassignment, ...]:
    path = f"{paths.REASSIGNMENTS}?consistency=local"
    try:
        answer = await context.session.call(
            ReassignmentsResponse,
            "GET",
            address,
            path,
            timeout_ms=LEADERS_TIMEOUT_MS,
            fields=context.quotas.node_header(),
        )
    except RaftlogError:
        return ()
    return answer.partitions
