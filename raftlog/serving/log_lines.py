"""The lines of a node's log, as text or as JSON: one event each, whatever names and values of clients are in it."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal, TextIO, TypeAlias

from raftlog.request_marks import current_request_id

LogForm: TypeAlias = Literal["text", "json"]
MAX_MESSAGE = 8 << 10
"""The most characters of a message."""
MAX_TRACEBACK = 64 << 10
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What could end a line, move a terminal's cursor, or is no text at all."""
_log = logging.getLogger("raftlog.process")


class TextLines(logging.Formatter):
    """A line for each event. The lines of a traceback follow it, each with a mark, so that none looks like an event."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the event's lines."""
        request_id = current_request_id()
        line = (
            f"{_time(record.created, time.localtime)} {record.levelname} {record.name}: {_one_line(_message(record))}"
            f"{f' [request {request_id}]' if request_id else ''}"
        )
        return "\n".join([line, *(f"  | {_one_line(each)}" for each in _traceback(self, record).splitlines())])


class JsonLines(logging.Formatter):
    """A JSON object for each event, in ASCII, with times in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the event's line."""
        line = {
            "time": f"{_time(record.created, time.gmtime)}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        if request_id := current_request_id():
            line["request_id"] = request_id
        if traceback := _traceback(self, record):
            line["traceback"] = traceback
        return json.dumps({name: text.encode("utf-8", "replace").decode() for name, text in line.items()})


def configure(level: str, form: LogForm, stream: TextIO | None = None) -> None:
    """Log to standard error in a form; Python's own warnings and uncaught exceptions, too."""
    handler = _Handler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    if form == "json":
        logging.captureWarnings(True)
        sys.excepthook = _log_uncaught
        sys.unraisablehook = lambda found: _log_uncaught(found.exc_type, found.exc_value, found.exc_traceback)
        threading.excepthook = lambda found: _log_uncaught(found.exc_type, found.exc_value, found.exc_traceback)


class _Handler(logging.StreamHandler[TextIO]):
    """Writes each event by one call."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__(stream or sys.stderr)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (logging's name)
        """Write a line about an event that cannot be written; logging itself would print several."""
        unwritten = logging.LogRecord(
            record.name, record.levelno, record.pathname, record.lineno, f"cannot log: {record.msg!r:.200}", None, None
        )
        try:
            self.stream.write(self.format(unwritten) + self.terminator)
        except (OSError, ValueError):
            return  # The stream is closed, or its disk is full.


def _log_uncaught(kind: type[BaseException], error: BaseException | None, traceback: object) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    _log.critical("uncaught %s", kind.__name__, exc_info=(kind, error, traceback))  # type: ignore[arg-type]


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage()
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}... ({len(text)} characters)"


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """Return the traceback and the stack of an event, both ends of a long one; "": it has none."""
    text, half = "\n".join(_parts(formatter, record)), MAX_TRACEBACK // 2
    return text if len(text) <= MAX_TRACEBACK else f"{text[:half]}\n...\n{text[-half:]}"


def _parts(formatter: logging.Formatter, record: logging.LogRecord) -> Iterator[str]:
    if record.exc_info:
        yield formatter.formatException(record.exc_info)
    if record.stack_info:
        yield formatter.formatStack(record.stack_info)


def _one_line(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _time(created: float, zone: Callable[[float], time.struct_time]) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', zone(created))}.{int(created % 1 * 1000):03d}"
