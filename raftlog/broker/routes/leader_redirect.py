"""Redirects to the broker that leads a partition."""

from __future__ import annotations

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.raw import RawReply
from raftlog.errors import StaleRouteError
from raftlog.serving.error_bodies import error_body


def redirect_to_leader(context: BrokerContext, request: web.Request, topic: str, partition: int) -> web.StreamResponse:
    """Return `leader_elsewhere` as a response for aiohttp."""
    return leader_elsewhere(context, request.rel_url.raw_path_qs, topic, partition).to_response(request)


def leader_elsewhere(context: BrokerContext, target: str, topic: str, partition: int) -> RawReply:
    """Return a 307 with the leader's URL, and an error body for clients that do not follow redirects.

    Raises:
        NotFoundError: the topic or the partition does not exist.
        StaleRouteError: the partition has no leader now.
    """
    address = context.leader_address(topic, partition)
    leader = context.partition(topic, partition).leader
    error = StaleRouteError(
        f"broker {context.config.node_id} does not lead {topic}-{partition}: broker {leader} at {address} does",
        details={"leader": leader, "url": address.url},
    )
    location = {"Location": f"{address.url}{target}"}
    return RawReply.json(error_body(error), status=307, headers=location)
