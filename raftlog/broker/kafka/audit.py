"""Administrative changes that Kafka's clients request, in the audit log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from raftlog.broker.kafka.call import KafkaCall
from raftlog.errors import AuthenticationError, AuthorizationError, RaftlogError, UnknownOutcomeError
from raftlog.security.audit import Outcome, detail_of
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
    reason, is_denied = "", False
    try:
        response = await work
        is_large = call.has_many or call.is_large
        failed = await in_worker(has_error, response) if is_large else has_error(response)
        outcome = "failed" if failed else "allowed"
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
        if not is_denied:
            audit.changed(
                call.sender,
                outcome=outcome,
                name=often or {},
                detail=detail_of(message),
                reason=reason,
                often=often is not None,
            )


def has_error(response: Any, depth: int = _DEPTH) -> bool:
    """Return whether a response, or one of its entries, has an error code."""
    if getattr(response, "error_code", 0):
        return True
    if not depth or not is_dataclass(response):
        return False
    lists = (value for each in fields(response) if isinstance(value := getattr(response, each.name), list))
    return any(has_error(entry, depth - 1) for entries in lists for entry in entries)
