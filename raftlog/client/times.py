"""Points in time as applications give them: microseconds since 1970 as an int, or a datetime."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from raftlog.errors import ErrorCode, InvalidRequestError

Time: TypeAlias = int | datetime
"""Microseconds since 1970 UTC, the unit of `Record.timestamp`; or a datetime, local time if it has no zone."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
NEAREST_US = 365 * 86_400 * 1_000_000
"""Nearer to 1970 than this, a number is more likely seconds or milliseconds than microseconds."""
LAST_US = 253_402_300_799_999_999
"""The end of the year 9999."""
FIRST_US = -62_135_596_800_000_000
"""The beginning of the year 1."""
_SECONDS_BELOW = 100_000_000_000
_INSTEAD = "pass a datetime, or microseconds since 1970 (time.time_ns() // 1000)"


def microseconds(name: str, at: object) -> int:
    """Return a point in time as microseconds since 1970. Errors call it `name`.

    Raises:
        TypeError: it is neither an int nor a datetime.
        InvalidRequestError: INVALID_TIMESTAMP; a number that is probably in another unit, or an invalid datetime.
    """
    if isinstance(at, datetime):
        return _of_datetime(name, at)
    if isinstance(at, bool) or not isinstance(at, int):
        raise TypeError(
            f"{name}: expected microseconds since 1970 as an int, or a datetime, received {type(at).__name__}"
            + (": time.time() gives seconds, use datetime.now() or time.time_ns() // 1000" * isinstance(at, float))
        )
    if not _is_plain(at):
        raise InvalidRequestError(
            f"{name}: expected microseconds since 1970, received {at}, {_looks_like(at)}: {_INSTEAD}",
            code=ErrorCode.INVALID_TIMESTAMP,
        )
    return at


def as_argument(at_us: int) -> Time:
    """Return a value that `microseconds` accepts: a datetime where the number alone would be refused."""
    return at_us if _is_plain(at_us) else EPOCH + timedelta(microseconds=at_us)


def _is_plain(at: int) -> bool:
    return NEAREST_US <= at <= LAST_US or FIRST_US <= at <= -NEAREST_US


def _looks_like(at: int) -> str:
    if at in (-1, -2):
        return 'which is no time (for an end of the log, say "latest" or "earliest")'
    if at == 0:
        return 'which is no time (for the start of the log, say "earliest"; for 1970, pass a datetime)'
    if abs(at) < NEAREST_US:
        unit = "seconds" if abs(at) < _SECONDS_BELOW else "milliseconds"
        return f"which looks like {unit} (times before 1971 and after 1968 need a datetime)"
    return "which looks like nanoseconds (the years go from 1 to 9999)"


def _of_datetime(name: str, at: datetime) -> int:
    try:
        # A naive datetime is local time, also where a subclass says otherwise (pandas: UTC).
        moment = at if at.utcoffset() is not None else datetime.combine(at.date(), at.time()).astimezone(UTC)
        return int((moment - EPOCH) // MICROSECOND)
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidRequestError(
            f"{name}: expected a time of the years 1 to 9999, received {at!r} ({error})",
            code=ErrorCode.INVALID_TIMESTAMP,
        ) from None
