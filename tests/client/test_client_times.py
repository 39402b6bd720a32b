"""Points in time: one unit, and nothing that can hardly be meant."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import click
import pytest

from raftlog.cli.times import a_time, parse_time
from raftlog.client.record_input import new_record
from raftlog.client.start_offsets import at_text
from raftlog.client.times import NEAREST_US, as_argument, microseconds
from raftlog.errors import ConfigError, InvalidRequestError


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("at", "error", "message"),
    [
        (-1, InvalidRequestError, '"latest" or "earliest"'),
        (-2, InvalidRequestError, '"latest" or "earliest"'),
        (0, InvalidRequestError, "earliest"),
        (1_700_000_000, InvalidRequestError, "looks like seconds"),
        (1_700_000_000_000, InvalidRequestError, "looks like milliseconds"),
        (NEAREST_US - 1, InvalidRequestError, "looks like milliseconds"),
        (1_700_000_000_000_000_000, InvalidRequestError, "looks like nanoseconds"),
        (1 << 63, InvalidRequestError, "years go from 1 to 9999"),
        (1_700_000_000.5, TypeError, "received float.*time_ns"),
        (True, TypeError, "received bool"),
    ],
)
def test_what_can_hardly_be_meant_is_refused(at: int, error: type[Exception], message: str):
    with pytest.raises(error, match=f"timestamp: .*{message}"):
        new_record(b"x", None, None, at)
    with pytest.raises((error, ConfigError) if error is TypeError else error, match=f"start: .*{message}"):
        at_text(at)


@pytest.mark.parametrize("at_us", [NEAREST_US, 1_700_000_000_123_456, -NEAREST_US, 1_000, -1])
def test_every_time_can_be_said_and_keeps_its_microseconds(at_us: int):
    assert microseconds("at", as_argument(at_us)) == at_us
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
    assert new_record(b"x", None, None, moment)[0].timestamp == at_us
    assert at_text(moment.astimezone(timezone(timedelta(hours=5)))) == str(at_us // 1_000)


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(
    ("naive", "utc_hour"),
    [
        (datetime(2024, 1, 15, 12), 11),  # noqa: DTZ001
        (datetime(2024, 7, 15, 12), 10),  # noqa: DTZ001
        (datetime(2024, 10, 27, 2, 30), 0),  # noqa: DTZ001
        (datetime(2024, 10, 27, 2, 30, fold=1), 1),  # noqa: DTZ001
    ],
)
def test_a_time_without_a_zone_is_local(naive: datetime, utc_hour: int):
    at_us = microseconds("at", naive)
    assert at_us == int(naive.timestamp()) * 1_000_000
    assert datetime.fromtimestamp(at_us / 1e6, UTC).hour == utc_hour
    assert at_text(naive) == str(at_us // 1_000)
    if not naive.fold:
        assert parse_time(naive.isoformat(), 0) == datetime.fromtimestamp(at_us / 1e6, UTC)


def test_what_is_no_start_is_refused():
    for wrong in ("noon", None, object()):
        with pytest.raises(ConfigError, match="start: expected earliest"):
            at_text(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="years 1 to 9999"):
        at_text(timedelta.max)


@pytest.mark.parametrize("text", ["1763942400", "20251124", "0", "1763942400000000"])
def test_numbers_that_are_hardly_milliseconds_are_refused_on_the_command_line(text: str):
    with pytest.raises(click.BadParameter, match=f"received '?{text}'?.*milliseconds .date"):
        a_time(text)


def test_milliseconds_are_taken_on_the_command_line():
    assert a_time("1763942400000") == datetime(2025, 11, 24, tzinfo=UTC)
