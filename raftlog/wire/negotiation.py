"""Content negotiation: `Accept` and `Accept-Encoding` with their weights (RFC 9110, 12.4, 12.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from raftlog.errors import ErrorCode, InvalidRequestError

_WEIGHT = re.compile(r"q\s*=\s*([01](?:\.[0-9]{0,3})?)")
_MOST_ITEMS = 64


def negotiate(accept: str, offered: Sequence[str], wildcards: Mapping[str, str]) -> str:
    """Return the media type of `offered` with the highest weight in an `Accept` header; the first one of equals.

    Args:
        wildcards: the type for each range such as `*/*`, and for "" if there is no header.

    Raises:
        InvalidRequestError: UNSUPPORTED_MEDIA_TYPE: no accepted type is offered; the message lists those offered.
    """
    if not accept.strip():
        return wildcards[""]
    weighed = sorted(_weighed(accept), key=lambda item: -item[1])
    refused = {wanted for wanted, weight in weighed if weight == 0}
    for wanted, weight in weighed:
        found = wanted if wanted in offered else wildcards.get(wanted)
        if weight > 0 and found is not None and found not in refused:
            return found
    raise InvalidRequestError(
        f"Accept: expected one of {', '.join(offered)}, received {accept!r:.200}",
        code=ErrorCode.UNSUPPORTED_MEDIA_TYPE,
    )


def content_coding(accept_encoding: str, offered: Sequence[str]) -> str | None:
    """Return the coding of `offered` with the highest weight in an `Accept-Encoding` header; None: no coding."""
    weights = dict(_weighed(accept_encoding))
    found = max(offered, key=lambda coding: weights.get(coding, 0.0), default=None)
    if found is None or weights.get(found, 0.0) <= 0 or weights.get("identity", 0.0) > weights[found]:
        return None
    return found


def _weighed(header: str) -> Iterator[tuple[str, float]]:
    for item in header.split(",")[:_MOST_ITEMS]:
        name, *parameters = (part.strip().lower() for part in item.split(";"))
        weights = [match[1] for parameter in parameters if (match := _WEIGHT.fullmatch(parameter))]
        yield name, float(weights[0]) if weights else 1.0
