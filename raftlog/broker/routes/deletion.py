"""Deleting records below an offset."""

from __future__ import annotations

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import caller_timeout_ms, check_query, json_response, path_partition, read_json
from raftlog.broker.internal_topics import require_ordinary
from raftlog.broker.routes.leader_redirect import redirect_to_leader
from raftlog.broker.routes.metadata_access import ADMIN_TIMEOUT_MS
from raftlog.errors import InvalidRequestError
from raftlog.model import Offset
from raftlog.partition.record_deletion import delete_records
from raftlog.wire import paths
from raftlog.wire.data import HIGH_WATERMARK, DeleteRecordsBody, DeleteRecordsResponse


class DeletionRoutes:
    """Handlers that delete records."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_post(paths.DELETE_RECORDS, self.delete_records)

    async def delete_records(self, request: web.Request) -> web.StreamResponse:
        """Raise a partition's log start offset; answer once every in-sync replica has. Other brokers redirect."""
        check_query(request)
        topic, partition = path_partition(request)
        require_ordinary(topic)
        before = _before((await read_json(request, DeleteRecordsBody)).before_offset)
        if not self._context.leads(topic, partition):
            return redirect_to_leader(self._context, request, topic, partition)
        replica = self._context.leader(topic, partition)
        start = await delete_records(replica, before, timeout_ms=caller_timeout_ms(request, ADMIN_TIMEOUT_MS))
        return json_response(DeleteRecordsResponse(topic=topic, partition=partition, log_start_offset=start))


def _before(offset: int | str) -> Offset | None:
    if offset == HIGH_WATERMARK:
        return None
    if isinstance(offset, str) or offset < 0:
        raise InvalidRequestError(f"before_offset: expected an offset or {HIGH_WATERMARK!r}, received {offset!r:.80}")
    return offset
