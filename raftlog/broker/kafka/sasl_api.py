"""SaslHandshake and SaslAuthenticate (KIP-43, KIP-152, KIP-368)."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from raftlog.broker.kafka.call import ClosesConnectionError, Handlers, KafkaCall, Served
from raftlog.broker.kafka.sasl import SaslServer, SaslState, SaslStateError, SaslStep
from raftlog.errors import AuthenticationError, RaftlogError
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from raftlog.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

FAILURE_DELAY_S: Final = 0.1
"""How long the answer of a failed attempt takes at least: a client that tries again at once is slowed down."""
_MAX_LIFETIME_MS: Final = 2**62


async def handshake(call: KafkaCall, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin an exchange with a mechanism, or return those that are accepted and close the connection."""
    state = _state(call)
    accepted = list(_server(call).mechanisms(call.connection.peer))
    try:
        state.begin(request.mechanism)
    except SaslStateError as error:
        call.ends_because = error.message
        return SaslHandshakeResponse(error_code=KafkaError.ILLEGAL_SASL_STATE, mechanisms=accepted)
    except AuthenticationError as error:
        call.ends_because = error.message
        return SaslHandshakeResponse(error_code=KafkaError.UNSUPPORTED_SASL_MECHANISM, mechanisms=accepted)
    return SaslHandshakeResponse(mechanisms=accepted)


async def authenticate(call: KafkaCall, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Answer one message of an exchange. The connection of a failed one is closed after the answer.

    Raises:
        ClosesConnectionError: the credentials cannot be checked now. Clients connect again then, which they do not do
            after any error.
    """
    began = asyncio.get_running_loop().time()
    try:
        step = await _state(call).answer(bytes(request.auth_bytes))
    except SaslStateError as error:
        call.ends_because = error.message
        return SaslAuthenticateResponse(error_code=KafkaError.ILLEGAL_SASL_STATE, error_message=error.message)
    except AuthenticationError as error:
        await asyncio.sleep(max(0.0, began + FAILURE_DELAY_S - asyncio.get_running_loop().time()))
        call.ends_because = error.message
        number = KafkaError.SASL_AUTHENTICATION_FAILED
        return SaslAuthenticateResponse(error_code=number, error_message=error.message)
    except RaftlogError as error:
        raise ClosesConnectionError(f"credentials cannot be checked now: {error.message}") from None
    if step.is_done:
        call.connection.identified = step.identified
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=step.message, session_lifetime_ms=_lifetime_ms(call, step)
    )


def _lifetime_ms(call: KafkaCall, step: SaslStep) -> int:
    """Return for how long the credentials count; 0: nothing ends them but a change of the user."""
    if not step.is_done or not math.isfinite(step.expires_s):
        return 0
    left_ms = int(1_000 * step.expires_s) - call.context.clock.wall_us() // 1_000
    return max(1, min(left_ms, _MAX_LIFETIME_MS))


def _server(call: KafkaCall) -> SaslServer:
    return SaslServer(call.services.guard, call.context.logins, call.context.config.security)


def _state(call: KafkaCall) -> SaslState:
    """Return the connection's state, made at its first use."""
    if call.connection.sasl is None:
        call.connection.sasl = SaslState(_server(call), call.connection.peer)
    return call.connection.sasl


HANDLERS: Final[Handlers] = {17: Served(handle=handshake, first=1), 36: authenticate}
