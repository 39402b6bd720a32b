"""Explains which server answers at a bootstrap address that is not a broker's."""

from __future__ import annotations

from raftlog.errors import ConfigError, NotFoundError, RaftlogError
from raftlog.model import Address
from raftlog.transport.session import HttpSession, PeerAnswerError
from raftlog.wire import paths
from raftlog.wire.metadata import ControllerInfo

NO_BROKERS_ANSWER = (NotFoundError, PeerAnswerError)
"""Errors that a broker never returns to a metadata request."""
_TIMEOUT_MS = 5_000


class NoBrokerError(ConfigError):
    """A server that is not a broker answered. Not a `NotFoundError`, since that would mean the topic."""


async def wrong_server_error(session: HttpSession, address: Address, answer: RaftlogError) -> NoBrokerError:
    """Return the error with the kind of server, and the address to use instead."""
    name = f"option 'bootstrap': {address.url}"
    remedy = "use the URL that brokers announce to clients, such as http://127.0.0.1:9400"
    query = {"consistency": "local"}
    try:
        await session.call(ControllerInfo, "GET", address, paths.CONTROLLER, timeout_ms=_TIMEOUT_MS, query=query)
    except RaftlogError:
        return NoBrokerError(f"{name} is not a raftlog broker: {remedy}. It answered: {answer.message:.200}")
    return NoBrokerError(f"{name} is a controller, or a listener that is not for clients: {remedy}")
