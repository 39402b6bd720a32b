"""Log lines: one event each, with hostile text in names, values and exceptions, in both forms."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from raftlog.request_marks import RequestMarks
from raftlog.serving.log_lines import MAX_MESSAGE, JsonLines, TextLines, _Handler

FORGED = '2026-01-01T00:00:00.000 ERROR raftlog.broker: all is lost {"level": "error"}'
HOSTILE = [
    f"a\n{FORGED}", f"a\r\n{FORGED}", f"a\r{FORGED}", f"a\x0b{FORGED}", f"a\x0c{FORGED}", f"a\x1c{FORGED}",
    f"a\x85{FORGED}", f"a\u2028{FORGED}", f"a\u2029{FORGED}", "\x1b[2J\x1b[1;1H", "\x00",
    "\ud800", "\udfff\ud800", '"}\n{"x": "',    "é € 😀", "x" * 100_000,
]  # fmt: skip


@contextmanager
def logger(lines: logging.Formatter) -> Iterator[tuple[logging.Logger, io.StringIO]]:
    log, out = logging.Logger("test"), io.StringIO()  # noqa: LOG001
    handler = _Handler(out)
    handler.setFormatter(lines)
    log.addHandler(handler)
    yield log, out


def fail(text: str) -> None:
    raise ValueError(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_json_lines_are_one_object_each(text: str):
    with logger(JsonLines()) as (log, out), RequestMarks("r-1").active():
        log.warning("from %s", text)
        try:
            fail(text)
        except ValueError:
            log.exception("failed")
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert out.getvalue().isascii()
    assert first["message"][:MAX_MESSAGE].startswith(f"from {text}".encode("utf-8", "replace").decode()[:MAX_MESSAGE])
    assert (first["level"], first["logger"], first["request_id"]) == ("warning", "test", "r-1")
    assert "Traceback" in second["traceback"]
    assert len(out.getvalue()) < 1_000_000


@pytest.mark.parametrize("text", HOSTILE)
def test_text_lines_cannot_be_forged(text: str):
    with logger(TextLines()) as (log, out), RequestMarks("r-1").active():
        log.warning("from %s", text)
        try:
            fail(text)
        except ValueError:
            log.exception("failed")
    lines = out.getvalue().splitlines()
    assert [line for line in lines if not line.startswith("  | ")] == [lines[0], lines[1]]
    assert lines[0].endswith("[request r-1]")
    assert all(line.isprintable() for line in lines)


def test_an_event_that_cannot_be_formatted_is_one_line():
    for form in (JsonLines(), TextLines()):
        with logger(form) as (log, out):
            log.warning("two %s %s", "one")  # noqa: PLE1206
        (line,) = out.getvalue().splitlines()
        assert "cannot log" in line


def test_without_a_request_there_is_no_id():
    with logger(JsonLines()) as (log, out):
        log.warning("x")
    assert "request_id" not in json.loads(out.getvalue())


PROGRAM = """
import logging, threading, warnings
from raftlog.serving.log_lines import configure
configure("info", "json")
warnings.warn("a warning", stacklevel=1)
class Bad:
    def __del__(self): raise ValueError("in del\\n{}")
Bad()
thread = threading.Thread(target=lambda: 1 / 0)
thread.start(); thread.join()
logging.getLogger("x").info("x\\ny")
raise RuntimeError("the end\\n{}")
"""


def test_warnings_and_uncaught_exceptions_are_json_too():
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=60)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 1
    assert [line["logger"] for line in lines] == ["py.warnings", *["raftlog.process"] * 2, "x", "raftlog.process"]
    assert lines[-1]["message"] == "uncaught RuntimeError"
