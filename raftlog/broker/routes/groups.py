"""Consumer groups: heartbeats, offsets, listings. Only a group's coordinator answers; other brokers redirect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol, TypeVar

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import caller_timeout_ms, check_query, json_bytes, json_response, query_choice, read_json
from raftlog.broker.openapi.parameters import PAGE, SCOPE
from raftlog.broker.paging import Wanted
from raftlog.broker.routes.other_brokers import each_other_broker, joined
from raftlog.coordinator.group.membership import require_counts
from raftlog.coordinator.group.offsets import require_limit
from raftlog.errors import ErrorCode, StaleRouteError
from raftlog.request_marks import current_request_id
from raftlog.runtime import in_slices
from raftlog.security.access import refusal
from raftlog.security.audited_changes import note_change, note_errors
from raftlog.security.guard import sender_of
from raftlog.serving.error_bodies import error_body
from raftlog.serving.workers import in_worker
from raftlog.wire import paths
from raftlog.wire.answers import DeletedGroup
from raftlog.wire.codec import encode_json
from raftlog.wire.coordinators import CoordinatorInfo
from raftlog.wire.errors import WireError
from raftlog.wire.groups import (
    GroupHeartbeatRequest,
    GroupListing,
    GroupsResponse,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetResult,
    OffsetResults,
    count_of,
)

R = TypeVar("R", OffsetResults, OffsetFetchResponse)
_MANY = 512
"""Offsets of which a worker thread renders the answer."""
_SLICE = 512
"""The topics of one request that are authorized in one turn of the event loop."""


class _NamesTopic(Protocol):
    @property
    def topic(self) -> str: ...


class GroupRoutes:
    """Handlers of groups."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._groups = context.groups

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_get(paths.GROUPS, self.groups)
        app.router.add_get(paths.GROUP, self.describe)
        app.router.add_delete(paths.GROUP, self.delete)
        app.router.add_post(paths.GROUP_HEARTBEAT, self.heartbeat)
        app.router.add_get(paths.GROUP_OFFSETS, self.offsets)
        app.router.add_post(paths.GROUP_OFFSETS, self.commit)
        app.router.add_post(paths.GROUP_OFFSETS_FETCH, self.fetch_offsets)
        app.router.add_post(paths.GROUP_OFFSETS_DELETE, self.delete_offsets)

    async def groups(self, request: web.Request) -> web.Response:
        """List every group of the cluster, or with `?scope=broker` those that this broker coordinates."""
        check_query(request, SCOPE, *PAGE)
        access, sender, wanted = self._context.access, sender_of(request), Wanted.of(request)
        scope = query_choice(request, SCOPE)
        listed, own = await self._groups.listed(wanted, lambda name: access.sees(sender, "group", name))
        pages = [(listed, own.matching, own.next != "")]
        if scope == "cluster":
            pages += await self._of_others(request, wanted)
        return await joined(
            pages,
            wanted,
            lambda group: group.group_id,
            lambda groups, matching, after: GroupsResponse(groups=groups, matching=matching, next=after),
        )

    async def _of_others(self, request: web.Request, wanted: Wanted) -> list[tuple[list[GroupListing], int, bool]]:
        """Return the pages of the other brokers, which they make for the sender."""
        answers = await each_other_broker(self._context, request, GroupsResponse, paths.GROUPS, wanted.query)
        return [(list(one.groups), one.matching, one.next != "") for one in answers]

    async def describe(self, request: web.Request) -> web.Response:
        check_query(request)
        if (answer := await self._elsewhere(request)) is not None:
            return answer
        group_id = request.match_info["group"]
        return json_response(await self._groups.describe(group_id, timeout_ms=self._timeout_ms(request)))

    async def delete(self, request: web.Request) -> web.Response:
        """Delete a group that has no members, with its offsets."""
        check_query(request)
        if (answer := await self._elsewhere(request)) is not None:
            return answer
        group_id = request.match_info["group"]
        await self._groups.delete(group_id, timeout_ms=self._timeout_ms(request))
        return json_response(DeletedGroup(group=group_id, deleted=True))

    async def heartbeat(self, request: web.Request) -> web.Response:
        """Join, stay or leave; the response waits for a change for the member, at most `max_wait_ms`."""
        check_query(request)
        command = await read_json(request, GroupHeartbeatRequest)
        require_counts(command)
        access, sender = self._context.access, sender_of(request)
        async for topic in in_slices(command.topics or (), _SLICE):
            access.require(sender, "describe", "topic", topic)
        if (answer := await self._elsewhere(request)) is not None:
            return answer
        response = await self._groups.heartbeat(
            request.match_info["group"],
            command,
            client_host=request.remote or "",
            timeout_ms=self._timeout_ms(request),
        )
        if not access.sees_all(sender):  # A pattern may match topics that the member may not know of.
            seen = tuple(part for part in response.assignment if access.sees(sender, "topic", part.topic))
            response = replace(response, assignment=seen)
        return json_response(response)

    async def commit(self, request: web.Request) -> web.Response:
        check_query(request)
        command = await read_json(request, OffsetCommitRequest)
        if (answer := await self._elsewhere(request)) is not None:
            return answer
        if command.member_epoch < 0:  # No member: an operator resets offsets, or an application keeps its own.
            note_change(request, command)
        require_limit(len(command.offsets))
        group_id, timeout_ms = request.match_info["group"], self._timeout_ms(request)
        refused = await self._refused_topics(request, command.offsets)
        if not refused:
            return await change_response(request, await self._groups.commit(group_id, command, timeout_ms=timeout_ms))
        allowed = replace(command, offsets=tuple(one for one in command.offsets if one.topic not in refused))
        done = iter((await self._groups.commit(group_id, allowed, timeout_ms=timeout_ms)).offsets)
        results = tuple(
            OffsetResult(topic=one.topic, partition=one.partition, error=refused[one.topic])
            if one.topic in refused
            else next(done)
            for one in command.offsets
        )
        return await change_response(request, OffsetResults(offsets=results))

    async def offsets(self, request: web.Request) -> web.Response:
        """Return all committed offsets of a group."""
        check_query(request)
        return await self._fetch(request, OffsetFetchRequest())

    async def fetch_offsets(self, request: web.Request) -> web.Response:
        """Return some committed offsets of a group; the member's epoch is checked if it is given."""
        check_query(request)
        return await self._fetch(request, await read_json(request, OffsetFetchRequest))

    async def delete_offsets(self, request: web.Request) -> web.Response:
        check_query(request)
        command = await read_json(request, OffsetDeleteRequest)
        if (answer := await self._elsewhere(request)) is not None:
            return answer
        note_change(request, command)
        require_limit(count_of(command.partitions))
        if refused := await self._refused_topics(request, command.partitions):
            raise next(iter(refused.values())).to_error()
        group_id = request.match_info["group"]
        timeout_ms = self._timeout_ms(request)
        results = await self._groups.delete_offsets(group_id, command, timeout_ms=timeout_ms)
        return await change_response(request, results)

    async def _fetch(self, request: web.Request, command: OffsetFetchRequest) -> web.Response:
        if (answer := await self._elsewhere(request)) is not None:
            return answer
        group_id = request.match_info["group"]
        timeout_ms = self._timeout_ms(request)
        found = await self._groups.fetch_offsets(group_id, command, timeout_ms=timeout_ms)
        access, sender = self._context.access, sender_of(request)
        if not access.sees_all(sender):
            of_all = in_slices(found.offsets, _SLICE)
            seen = [offset async for offset in of_all if access.sees(sender, "topic", offset.topic)]
            found = OffsetFetchResponse(offsets=tuple(seen))
        return await offsets_response(found)

    async def _refused_topics(self, request: web.Request, named: Iterable[_NamesTopic]) -> dict[str, WireError]:
        """Return the error of each topic that the sender may not read."""
        access, sender, refused = self._context.access, sender_of(request), dict[str, WireError]()
        async for topic in in_slices(dict.fromkeys(one.topic for one in named), _SLICE):
            if not access.may(sender, "read", "topic", topic):
                refused[topic] = WireError.of(refusal(sender, "read", "topic", topic), current_request_id())
        return refused

    async def _elsewhere(self, request: web.Request) -> web.Response | None:
        """Answer 307 if another broker coordinates the group."""
        coordinator = await self._context.internal_topics.coordinator(
            "group", request.match_info["group"], timeout_ms=self._timeout_ms(request)
        )
        if coordinator.broker_id == self._context.config.node_id:
            return None
        return _redirect(request, coordinator, self._context.config.node_id)

    def _timeout_ms(self, request: web.Request) -> int:
        return caller_timeout_ms(request, self._context.config.broker.request_timeout_ms)


async def change_response(request: web.Request, results: R) -> web.Response:
    """Return the results of a change of offsets; the audit log says if some of them failed."""
    note_errors(request, sum(one.error is not None for one in results.offsets), len(results.offsets))
    return await offsets_response(results)


async def offsets_response(results: R) -> web.Response:
    """Return the results of an offset request, whose errors have its id."""

    def render() -> bytes:
        return encode_json(_noted(results))

    return json_bytes(await in_worker(render) if len(results.offsets) > _MANY else render())


def _noted(results: R) -> R:
    """Return results whose errors have the id of the request: coordinators decide without knowing it."""
    found = tuple(
        one if one.error is None or one.error.request_id else replace(one, error=with_id(one.error))
        for one in results.offsets
    )
    return replace(results, offsets=found)


def with_id(error: WireError) -> WireError:
    """Return an error with the id of the request that is being handled."""
    return replace(error, request_id=current_request_id())


def _redirect(request: web.Request, coordinator: CoordinatorInfo, broker_id: int) -> web.Response:
    error = StaleRouteError(
        f"broker {broker_id} does not coordinate group {coordinator.key!r}: broker {coordinator.broker_id} at "
        f"{coordinator.url} does",
        code=ErrorCode.NOT_COORDINATOR,
        details={"leader": coordinator.broker_id, "url": coordinator.url},
    )
    location = {"Location": f"{coordinator.url}{request.rel_url.raw_path_qs}"}
    return json_response(error_body(error), status=307, headers=location)
