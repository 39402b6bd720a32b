"""Administrative changes that Kafka's clients request, in the audit log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from raftlog.broker.kafka.call import KafkaCall
from raftlog.errors import AuthenticationError, AuthorizationError, RaftlogError, UnknownOutcomeError
from raftlog.security.audit import Outcome
from raftlog.serving.workers import in_worker

_DEPTH = 3
"""How deep in a response error codes are looked for: topics, partitions."""


async def audited(
    call: KafkaCall, work: Awaitable[Any], message: Any, *, is_change: bool, often: Mapping[str, str] | None = None
) -> Any:
    """Await a handler; note its request in the audit log if it is a change.

    A request with several entries is one line. It failed if one of them did.

    Args:
        often: an application may send it all the time: what is changed, by which equal requests are summed up.
    """
    audit = call.context.access.audit
    if audit is None or not is_change:
        return await work
    outcome: Outcome = "unknown"  # Also if the client disconnects: the change may take effect.
    reason, is_denied, has_effect = "", False, True
    try:
        response = await work
        is_large = call.has_many or call.is_large
        failed, has_effect = await in_worker(outcomes, response) if is_large else outcomes(response)
        outcome = "failed" if failed else "allowed"
        return response
    except (AuthenticationError, AuthorizationError):
        is_denied = True  # It is noted already.
        raise
    except asyncio.CancelledError:
        has_effect, reason = call.acts, "the client disconnected"
        raise
    except Exception as error:
        has_effect = isinstance(error, UnknownOutcomeError)
        outcome = "unknown" if has_effect else "failed"
        reason = f"{error.code.value}: {error.message}" if isinstance(error, RaftlogError) else type(error).__name__
        raise
    finally:
        if not is_denied:
            audit.changed(
                call.sender,
                outcome=outcome,
                name=often or {},
                command=message,
                reason=reason,
                often=often is not None,
                has_effect=has_effect,
            )


def outcomes(response: Any, depth: int = _DEPTH) -> tuple[bool, bool]:
    """Return whether an entry of a response failed, and whether one succeeded; without entries, the response itself."""
    code = getattr(response, "error_code", None)
    if code:
        return True, False
    failed = succeeded = False
    if depth and is_dataclass(response):
        lists = (value for each in fields(response) if isinstance(value := getattr(response, each.name), list))
        for entry in (entry for entries in lists for entry in entries):
            has_failed, has_succeeded = outcomes(entry, depth - 1)
            failed, succeeded = failed or has_failed, succeeded or has_succeeded
    return failed, succeeded or (not failed and code == 0)
