"""Responses to requests that failed as a whole."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from raftlog.broker.kafka.call import KafkaCall, Served
from raftlog.wire.kafka.api_keys import find


def failed_response(served: Served, call: KafkaCall, request: Any, number: int) -> Any | None:
    """Return the response with an error for everything in the request; None: the message has no form for it."""
    if served.failed is not None:
        return served.failed(call, request, number)
    made = _response_class(call.api_key)()
    if not hasattr(made, "error_code"):
        return None
    made.error_code = number
    return made


@cache
def _response_class(key: int) -> Any:
    api = find(key)
    return getattr(import_module(f"raftlog.wire.kafka.messages.{api.module}"), f"{api.name}Response")
