"""Settings in force, of topics and of this broker."""

from __future__ import annotations

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.effective_settings import of_broker, of_topic
from raftlog.broker.http import check_query, json_response, parse_integer
from raftlog.broker.openapi.parameters import CONSISTENCY
from raftlog.broker.routes.log_dirs import redirect_to_broker
from raftlog.broker.routes.metadata_access import read_image
from raftlog.wire import paths
from raftlog.wire.settings import SettingsResponse


class SettingsRoutes:
    """Handlers that say which settings are in force, and why."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_get(paths.TOPIC_SETTINGS, self.of_topic)
        app.router.add_get(paths.BROKER_SETTINGS, self.of_broker)

    async def of_topic(self, request: web.Request) -> web.Response:
        """Return the settings of a topic, as this broker has them."""
        check_query(request, CONSISTENCY)
        await read_image(self._context, request)
        own = self._context.topic(request.match_info["topic"]).configs
        return json_response(SettingsResponse(settings=of_topic(self._context, own)))

    async def of_broker(self, request: web.Request) -> web.Response:
        """Return this broker's settings; other brokers redirect to it, since only it has its file."""
        check_query(request, CONSISTENCY)
        if parse_integer(request.match_info["broker"]) != self._context.config.node_id:
            return redirect_to_broker(self._context, request)
        await read_image(self._context, request)
        return json_response(SettingsResponse(settings=of_broker(self._context)))
