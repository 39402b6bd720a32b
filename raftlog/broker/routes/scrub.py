"""On-demand checks of this broker's logs (`partition/scrubber.py`)."""

from __future__ import annotations

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query, json_response, parse_integer, read_json
from raftlog.broker.routes.log_dirs import redirect_to_broker
from raftlog.errors import ErrorCode, NotFoundError
from raftlog.wire import paths
from raftlog.wire.admin import ScrubBody, ScrubResponse


class ScrubRoutes:
    """Handlers that start this broker's scrubber and report its progress."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_get(paths.SCRUB, self.progress)
        app.router.add_post(paths.SCRUB, self.start)

    async def progress(self, request: web.Request) -> web.Response:
        """Return the scrubber's progress; other brokers redirect to this one."""
        check_query(request)
        return json_response(self._describe()) if self._is_own(request) else redirect_to_broker(self._context, request)

    async def start(self, request: web.Request) -> web.Response:
        """Start a check of logs now; a requested check that is in progress does not start again."""
        check_query(request)
        if not self._is_own(request):
            return redirect_to_broker(self._context, request)
        body = await read_json(request, ScrubBody)
        known = {topic.topic for topic in self._context.image.topics.values()}
        if unknown := [topic for topic in body.topics if topic not in known]:
            raise NotFoundError(f"there is no topic {unknown[0]!r:.300}", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._context.replicas.scrubber.ask(body.topics)
        return json_response(self._describe(), status=202)

    def _is_own(self, request: web.Request) -> bool:
        return parse_integer(request.match_info["broker"]) == self._context.config.node_id

    def _describe(self) -> ScrubResponse:
        scrubber = self._context.replicas.scrubber
        left = scrubber.progress()
        return ScrubResponse(
            broker_id=self._context.config.node_id,
            replicas_left=left.replicas_left,
            bytes_left=left.bytes_left,
            checked_bytes=scrubber.checked_bytes,
            damage_found=scrubber.found,
            longest_unchecked_ms=scrubber.longest_unchecked_ms,
            checks_failed=scrubber.failed,
        )
