"""Offsets of many partitions at once, from all their leaders."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import cast

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import caller_timeout_ms, check_query, json_response, query_choice, read_json
from raftlog.broker.offsets import describe_offsets
from raftlog.broker.openapi.parameters import AT, ISOLATION, LEADER_SCOPE
from raftlog.broker.routes.metadata_access import ADMIN_TIMEOUT_MS
from raftlog.broker.routes.other_brokers import on_behalf_of
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError, StaleRouteError
from raftlog.model import BrokerId, Isolation, TopicPartition
from raftlog.request_marks import current_request_id
from raftlog.runtime import in_slices
from raftlog.security.guard import sender_of
from raftlog.wire import paths
from raftlog.wire.data import MAX_REQUEST_PARTITIONS
from raftlog.wire.errors import WireError
from raftlog.wire.groups import by_topic
from raftlog.wire.offsets import OffsetsBody, OffsetsResponse, PartitionOffsets

_SLICE = 64


class OffsetRoutes:
    """The handler of offsets of many partitions."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_post(paths.MANY_OFFSETS, self.offsets)

    async def offsets(self, request: web.Request) -> web.Response:
        """Return the offsets of partitions; this broker asks the leaders of those that it does not lead."""
        check_query(request, AT, ISOLATION, LEADER_SCOPE)
        isolation = cast("Isolation", query_choice(request, ISOLATION))
        at, asks_others = request.query.get(AT.name, str(AT.default)), query_choice(request, LEADER_SCOPE) == "cluster"
        wanted = _partitions(await read_json(request, OffsetsBody))
        found: dict[TopicPartition, PartitionOffsets] = {}
        elsewhere: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
        async for one in in_slices(wanted, _SLICE):
            try:
                self._context.access.require(sender_of(request), "describe", "topic", one.topic)
                if asks_others and (leader := self._leader_elsewhere(one)) is not None:
                    elsewhere[leader].append(one)
                else:
                    found[one] = await self._own(one, at, isolation)
            except RaftlogError as error:
                found[one] = _unknown(one, error)
        for some in await asyncio.gather(*(self._at(request, *one) for one in elsewhere.items())):
            found |= {TopicPartition(one.topic, one.partition): one for one in some}
        return json_response(OffsetsResponse(offsets=tuple(found[one] for one in wanted)))

    def _leader_elsewhere(self, one: TopicPartition) -> BrokerId | None:
        """Return the leader of a partition; None: this broker, or none."""
        leader = self._context.partition(*one).leader
        is_other = leader != self._context.config.node_id and leader in self._context.image.brokers
        return leader if is_other else None

    async def _own(self, one: TopicPartition, at: str, isolation: Isolation) -> PartitionOffsets:
        seen = await describe_offsets(self._context.leader(*one), at, isolation)
        return PartitionOffsets(
            topic=one.topic,
            partition=one.partition,
            offset=seen.offset,
            log_start_offset=seen.log_start_offset,
            high_watermark=seen.high_watermark,
            last_stable_offset=seen.last_stable_offset,
        )

    async def _at(
        self, request: web.Request, leader: BrokerId, some: list[TopicPartition]
    ) -> Iterable[PartitionOffsets]:
        """Return what another broker answers for the partitions that it leads."""
        query = {name: request.query[name] for name in (AT.name, ISOLATION.name) if name in request.query}
        registered = self._context.image.brokers.get(leader)  # The image may have changed since the first slice.
        if registered is None:
            gone = StaleRouteError(f"broker {leader} is not registered", code=ErrorCode.LEADER_NOT_AVAILABLE)
            return [_unknown(one, gone) for one in some]
        try:
            answer = await self._context.session.call(
                OffsetsResponse,
                "POST",
                registered.public,
                paths.MANY_OFFSETS,
                timeout_ms=caller_timeout_ms(request, ADMIN_TIMEOUT_MS),
                query={**query, LEADER_SCOPE.name: "broker"},
                message=OffsetsBody(partitions=by_topic(some)),
                fields=on_behalf_of(self._context, request),
            )
        except RaftlogError as error:
            return [_unknown(one, error) for one in some]
        given = {(one.topic, one.partition): one for one in answer.offsets}
        lost = RaftlogError(f"broker {leader} did not answer for this partition")
        return [given.get(one) or _unknown(one, lost) for one in some]


def _partitions(body: OffsetsBody) -> list[TopicPartition]:
    """Return the partitions of a request.

    Raises:
        InvalidRequestError: there are too many, or one of them twice.
    """
    if (count := sum(len(one.partitions) for one in body.partitions)) > MAX_REQUEST_PARTITIONS:
        raise InvalidRequestError(f"a request has at most {MAX_REQUEST_PARTITIONS:,} partitions, received {count:,}")
    wanted = [TopicPartition(one.topic, number) for one in body.partitions for number in one.partitions]
    if len(set(wanted)) < len(wanted):
        raise InvalidRequestError("partitions: expected each partition once")
    return wanted


def _unknown(one: TopicPartition, error: RaftlogError) -> PartitionOffsets:
    refusal = WireError.of(error, current_request_id())
    return PartitionOffsets(topic=one.topic, partition=one.partition, error=refusal)
