"""Says what it is that answers at a bootstrap address, when it is no broker."""

from __future__ import annotations

from raftlog.errors import ConfigError, NotFoundError, RaftlogError
from raftlog.model import Address
from raftlog.transport.session import HttpSession, PeerAnswerError
from raftlog.wire import paths
from raftlog.wire.metadata import ControllerInfo

NO_BROKERS_ANSWER = (NotFoundError, PeerAnswerError)
"""A broker always knows the path of metadata, and answers in raftlog's form."""
_TIMEOUT_MS = 5_000


class NoBrokerError(ConfigError):
    """Somebody else is where a broker should be. No `NotFoundError`: it says nothing of the topic."""


async def stranger(session: HttpSession, address: Address, answer: RaftlogError) -> NoBrokerError:
    """Return the error that says who is there, and what to name instead."""
    name = f"option 'bootstrap': http://{address}"
    remedy = "name brokers by the URL that they announce to clients, such as http://127.0.0.1:9400"
    query = {"consistency": "local"}
    try:
        await session.call(ControllerInfo, "GET", address, paths.CONTROLLER, timeout_ms=_TIMEOUT_MS, query=query)
    except RaftlogError:
        return NoBrokerError(f"{name} is no raftlog broker: {remedy}. It answered: {answer.message:.200}")
    return NoBrokerError(f"{name} is a controller, or a listener that is not for clients: {remedy}")
