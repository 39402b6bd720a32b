"""Disk usage of a broker's replicas (as Kafka's DescribeLogDirs, KIP-113 and KIP-827)."""

from __future__ import annotations

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query, json_response, parse_integer, query_choice
from raftlog.broker.log_dirs import describe_log_dirs
from raftlog.broker.openapi.parameters import LOGS_OF, ONLY
from raftlog.errors import ErrorCode, NotFoundError, StaleRouteError
from raftlog.serving.error_bodies import error_body
from raftlog.wire import paths


class LogDirRoutes:
    """Handlers that describe this broker's folders."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_get(paths.LOG_DIRS, self.log_dirs)

    async def log_dirs(self, request: web.Request) -> web.Response:
        """List this broker's folders, and its replicas in each; other brokers redirect to it."""
        check_query(request, LOGS_OF, ONLY)
        only_damaged = query_choice(request, ONLY) == "damaged"
        named = request.match_info["broker"]
        own = self._context.config.node_id
        if parse_integer(named) != own:
            return redirect_to_broker(self._context, request)
        topics = frozenset(request.query.getall(LOGS_OF.name, []))
        return json_response(await describe_log_dirs(self._context, topics=topics, only_damaged=only_damaged))


def redirect_to_broker(context: BrokerContext, request: web.Request, has: str = "knows its folders") -> web.Response:
    """Return a redirect to the broker whose id is in the path: only it knows its folders.

    Args:
        has: what only that broker can do, in words.

    Raises:
        NotFoundError: the broker does not exist.
    """
    named = request.match_info["broker"]
    broker_id, brokers = parse_integer(named), context.image.brokers
    broker = brokers.get(-1 if broker_id is None else broker_id)
    if broker is None:
        known = ", ".join(map(str, sorted(brokers)))
        raise NotFoundError(f"there is no broker {named!r:.80}; there are {known}", code=ErrorCode.NOT_FOUND)
    url = broker.public.url
    error = StaleRouteError(f"only broker {broker_id} at {url} {has}", details={"broker": broker_id, "url": url})
    location = {"Location": f"{url}{request.rel_url.raw_path_qs}"}
    return json_response(error_body(error), status=307, headers=location)
