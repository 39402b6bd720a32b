"""Administrative changes in the audit log: their sender, their command, and their outcome."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from raftlog.errors import AuthenticationError, AuthorizationError, RaftlogError, UnknownOutcomeError
from raftlog.request_marks import current_request_id
from raftlog.security.audit import AuditTrail, Outcome
from raftlog.security.identity import Sender

if TYPE_CHECKING:
    from raftlog.serving.admission import Handler

_COMMAND = web.RequestKey("raftlog_change", object)
_ERRORS = web.RequestKey("raftlog_errors", str)
_PASSED_ON = web.RequestKey("raftlog_passed_on", bool)


def note_change(request: web.Request, command: object) -> None:
    """Let the audit log show a command. A request of a route that is no change becomes one."""
    request[_COMMAND] = command


def note_errors(request: web.Request, errors: int, entries: int) -> None:
    """Let the audit log say that some entries of a command, or all of them, failed, though the answer is 200."""
    if errors:
        request[_ERRORS] = "all" if errors == entries else "some"


def note_passed_on(request: web.Request) -> None:
    """Leave a request out of this node's audit log: another broker gets it, and notes it."""
    request[_PASSED_ON] = True


async def audited(
    audit: AuditTrail, sender: Sender, request: web.Request, handler: Handler, *, is_change: bool
) -> web.StreamResponse:
    """Handle a request; note it in the audit log if it changed something, or tried to."""
    outcome: Outcome = "unknown"  # Also if the client disconnects: the change may take effect.
    reason, is_denied = "", False
    try:
        response = await handler(request)
        outcome = "allowed" if response.status < 300 and _ERRORS not in request else "failed"
        is_change = is_change and not 300 <= response.status < 400  # Another broker will note it.
        return response
    except (AuthenticationError, AuthorizationError):
        is_denied = True  # It is noted already.
        raise
    except asyncio.CancelledError:
        reason = "the client disconnected"
        raise
    except Exception as error:
        outcome = "unknown" if isinstance(error, UnknownOutcomeError) else "failed"
        reason = f"{error.code.value}: {error.message}" if isinstance(error, RaftlogError) else type(error).__name__
        raise
    finally:
        command = request.get(_COMMAND)
        if _PASSED_ON not in request and not is_denied and (is_change or command is not None):
            audit.changed(
                sender,
                outcome=outcome,
                name=dict(request.match_info),
                command=command,
                reason=reason,
                request_id=current_request_id(),
                often=not is_change,
                has_effect=_may_have_effect(request, outcome),
            )


def _may_have_effect(request: web.Request, outcome: Outcome) -> bool:
    if outcome == "unknown":
        return _COMMAND in request
    return outcome == "allowed" or request.get(_ERRORS) == "some"
