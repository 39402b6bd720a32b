"""Reading an audit log back: pages, filters, rotated files, damaged and hostile lines, and disks that fail."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from raftlog.errors import InvalidRequestError, OverloadedError, StorageError
from raftlog.security import audit_reader
from raftlog.security.audit_file import AuditFile
from raftlog.security.audit_reader import AuditPage, AuditReader, Position
from raftlog.security.audit_search import MAX_LINE, AuditFilter
from raftlog.wire.audit import AuditEntry

BEGUN_MS = 1_700_000_000_000
ALL = AuditFilter()


def time_of(number: int) -> str:
    return datetime.fromtimestamp(BEGUN_MS / 1_000 + number, UTC).isoformat(timespec="milliseconds")


def line(number: int, **more: Any) -> dict[str, Any]:
    """Return the denial of second `number`."""
    plain = {"time": time_of(number), "node": "broker-1", "event": "denial", "principal": "User:ann"}
    plain |= {"address": "10.0.0.1", "listener": "public", "route": "POST /v1/fetch", "operation": "read"}
    return plain | {"resource": "topic", "name": f"t-{number}", "outcome": "denied", "reason": "may not"} | more


def written(path: Path, *lines: dict[str, Any] | bytes) -> None:
    with path.open("ab") as file:
        for one in lines:
            file.write(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n")


def first_number(folder: Path) -> int:
    """Return the number of the oldest line in the files of a folder."""
    texts = (path.read_text().partition("\n")[0] for path in folder.iterdir())
    return min(int(json.loads(text)["name"].rpartition("-")[2]) for text in texts)


def emptied(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


async def read(path: Path, wanted: AuditFilter = ALL, *, files: int = 5, lines: int = 7) -> list[AuditEntry]:
    """Return all lines, page by page."""
    reader, found, before = AuditReader(str(path), files), list[AuditEntry](), None
    for _ in range(10_000):
        page = await reader.page(wanted, before=before, lines=lines)
        assert len(page.entries) <= lines
        found += page.entries
        before = None if page.next is None else Position.of(str(page.next))
        if before is None:
            return found
    raise AssertionError("the pages have no end")


def numbers(entries: list[AuditEntry]) -> list[int]:
    return [int(one.resource.rpartition("-")[2]) for one in entries]


async def test_pages_have_every_line_once_newest_first(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    written(path, *(line(number) for number in range(100)))
    entries = await read(path)
    assert numbers(entries) == list(reversed(range(100)))
    assert entries[0] == AuditEntry(
        time=time_of(99),
        node="broker-1",
        event="denial",
        principal="User:ann",
        address="10.0.0.1",
        operation="read",
        resource="topic t-99",
        outcome="denied",
        reason="may not",
        line=json.dumps(line(99)),
    )


@pytest.mark.parametrize("piece", [64, 300, 1_000, 4_096])
async def test_lines_are_found_whatever_the_size_of_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int):
    """A line that is longer than a piece is named once, and hides no other one."""
    monkeypatch.setattr(audit_reader, "PIECE_BYTES", piece)
    monkeypatch.setattr(audit_reader, "MAX_LOOKED_BYTES", 4 * piece)
    path, expected = tmp_path / "audit.jsonl", list[str]()
    for number in range(40):
        one = line(number, reason="x" * (number * 13 % 700))
        written(path, one)
        size = len(json.dumps(one)) + 1
        expected.append(f"topic t-{number}" if size < piece else "")
    entries = await read(path)
    assert len(entries) == 40
    sure = [(found, wanted) for found, wanted in zip((e.resource for e in reversed(entries)), expected, strict=True)]
    assert all(found == wanted for found, wanted in sure if wanted)
    for one, wanted in zip(reversed(entries), expected, strict=True):
        assert one.resource == wanted or "is not shown" in one.line or one.resource


async def test_rotated_files_are_read_and_a_page_goes_on_after_a_rotation(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    writer = AuditFile(str(path), max_bytes=1 << 16, files=4)
    for number in range(600):
        writer.put(line(number))
    writer.close()
    assert path.with_name("audit.jsonl.2").exists()
    oldest = first_number(tmp_path)
    assert numbers(await read(path, lines=50)) == list(reversed(range(oldest, 600)))

    reader = AuditReader(str(path), 4)
    page = await reader.page(ALL, before=None, lines=50)
    assert numbers(page.entries) == list(reversed(range(550, 600)))
    for number in (2, 1):
        path.with_name(f"audit.jsonl.{number}").rename(path.with_name(f"audit.jsonl.{number + 1}"))
    path.rename(path.with_name("audit.jsonl.1"))
    written(path, line(600))
    page = await reader.page(ALL, before=page.next, lines=50)
    assert numbers(page.entries) == list(reversed(range(500, 550)))
    emptied(tmp_path)
    assert await reader.page(ALL, before=page.next, lines=50) == AuditPage()


async def test_pages_of_a_file_that_rotates_meanwhile_have_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(audit_reader, "PIECE_BYTES", 8_192)
    path = tmp_path / "audit.jsonl"
    writer = AuditFile(str(path), max_bytes=1 << 16, files=100)
    try:
        for begun in range(0, 3_000, 300):
            for number in range(begun, begun + 300):
                writer.put(line(number))
            found = numbers(await read(path, files=100, lines=100))
            assert found == list(range(len(found) - 1, -1, -1)), begun
    finally:
        writer.close()
    assert len(await read(path, files=100, lines=500)) == 3_000


async def test_filters(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    change = {"event": "change", "route": "PATCH /v1/topics/{topic}", "resource": {"topic": "Flights"}, "name": None}
    written(
        path,
        line(0),
        line(1, principal="User:BOB", outcome="allowed", event="use"),
        line(2, **change, detail={"configs": ["retention_ms"]}, outcome="allowed"),
        line(
            3, **change | {"resource": {}}, detail={"acls": [{"resource_name": "salaries", "n": 5}]}, outcome="failed"
        ),
        line(4, outcome="would_deny"),
        {"time": time_of(5), "node": "broker-1", "event": "lost", "lines": 7},
    )
    seconds = {
        "principal bob": AuditFilter(principal="bob"),
        "resource flights": AuditFilter(resource="FLIGHTS"),
        "resource in a change": AuditFilter(resource="salar"),
        "setting": AuditFilter(resource="retention"),
        "allowed": AuditFilter(outcome="allowed"),
        "denied": AuditFilter(outcome="denied"),
        "would_deny": AuditFilter(outcome="would_deny"),
        "lost": AuditFilter(event="lost"),
        "since": AuditFilter(since_ms=BEGUN_MS + 4_000),
        "until": AuditFilter(until_ms=BEGUN_MS + 2_000),
        "both": AuditFilter(since_ms=BEGUN_MS + 1_000, until_ms=BEGUN_MS + 3_000, outcome="allowed"),
        "nothing": AuditFilter(principal="carol"),
    }
    found = {name: [one.time for one in await read(path, wanted)] for name, wanted in seconds.items()}
    assert found == {
        "principal bob": [time_of(1)],
        "resource flights": [time_of(2)],
        "resource in a change": [time_of(3)],
        "setting": [time_of(2)],
        "allowed": [time_of(2), time_of(1)],
        "denied": [time_of(0)],
        "would_deny": [time_of(4)],
        "lost": [time_of(5)],
        "since": [time_of(5), time_of(4)],
        "until": [time_of(1), time_of(0)],
        "both": [time_of(2), time_of(1)],
        "nothing": [],
    }
    (patched,) = await read(path, AuditFilter(resource="flights"))
    assert (patched.operation, patched.resource) == ("PATCH /v1/topics/{topic}", "Flights")
    (ruled,) = await read(path, AuditFilter(resource="salaries"))
    assert ruled.resource == "salaries"


async def test_what_was_asked_is_shown_for_every_event(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    moved = {"event": "change", "route": "POST /v1/reassignments", "resource": {}, "name": None}
    written(
        path,
        line(0, event="login", operation=None, method="scram", resource=None, name=None),
        line(1, operation="", resource="", name=""),
        line(2, operation="describe", resource="cluster", name="cluster"),
        line(3, **moved, detail={"partitions": [{"topic": "a", "partition": 0}, {"topic": "a"}, {"topic": "b"}]}),
    )
    assert [(one.operation, one.resource) for one in await read(path)] == [
        ("POST /v1/reassignments", "a b"),
        ("describe", "cluster"),
        ("POST /v1/fetch", ""),
        ("scram", ""),
    ]


async def test_a_time_long_ago_is_found_without_reading_what_is_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, read_bytes, pread = tmp_path / "audit.jsonl", list[int](), os.pread
    written(path, *(line(number, reason="x" * 200) for number in range(20_000)))

    def counted(file: int, length: int, start: int) -> bytes:
        read_bytes.append(length)
        return pread(file, length, start)

    monkeypatch.setattr(audit_reader.os, "pread", counted)
    wanted = AuditFilter(since_ms=BEGUN_MS + 100_000, until_ms=BEGUN_MS + 103_000)
    reader = AuditReader(str(path), 3)
    page = await reader.page(wanted, before=None, lines=50)
    assert numbers(page.entries) == [102, 101, 100]
    assert page.next is None
    assert sum(read_bytes) < path.stat().st_size // 4


async def test_a_page_that_finds_little_ends_after_some_bytes_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(audit_reader, "PIECE_BYTES", 4_096)
    monkeypatch.setattr(audit_reader, "MAX_LOOKED_BYTES", 16_384)
    path = tmp_path / "audit.jsonl"
    written(path, line(0, principal="User:rare"), *(line(number) for number in range(1, 400)))
    reader, wanted = AuditReader(str(path), 3), AuditFilter(principal="rare")
    page = await reader.page(wanted, before=None, lines=50)
    assert (page.entries, page.next is None) == ([], False)
    assert time_of(300) < page.reached < time_of(399)
    assert numbers(await read(path, wanted)) == [0]


async def test_damaged_lines_are_shown_as_such_and_a_torn_last_line_is_left_out(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    torn = json.dumps(line(1)).encode()[:40]
    written(path, line(0), torn + json.dumps(line(2)).encode() + b"\n", b"\xff\xfe\x00\n", b"[1, 2]\n", b"\n", line(3))
    written(path, json.dumps(line(4)).encode()[:50])
    entries = await read(path)
    assert [one.event for one in entries] == ["denial", "unreadable", "unreadable", "unreadable", "denial"]
    assert entries[1].line == "[1, 2]"
    assert entries[2].line == "\ufffd\ufffd\x00"
    assert entries[3].line.startswith(torn.decode())
    assert numbers(await read(path, AuditFilter(outcome="denied"))) == [3, 0]
    written(path, json.dumps(line(4)).encode()[50:] + b"\n")
    assert numbers((await read(path))[:1]) == [4]


async def test_hostile_lines_are_cut_and_never_fail(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    deep: Any = "deep"
    for _ in range(900):
        deep = [deep]
    script = "<script>alert(1)</script>\x1b[31m\u202e"
    written(
        path,
        line(0, principal=script, reason="r" * 100_000, name=["a", {"b": "c"}]),
        line(1, time=5, node=None, event={"a": 1}, principal=[1], name={"x": deep}, outcome=True),
        line(2, time="9999-99-99", resource=deep, detail=deep),
        line(3, time="0001-01-01T00:00:00+14:00", name="n" * 10_000),
        b'{"time":"\\ud800"}\n',
        b"{" * 100_000 + b"\n",
    )
    entries = await read(path)
    assert [one.event for one in entries[:2]] == ["unreadable", "unreadable"]
    assert len(entries) == 6
    assert entries[-1].principal == script
    assert entries[-1].resource == "topic a c"
    assert all(len(one.line) <= MAX_LINE and len(one.reason) <= 300 and len(one.resource) <= 300 for one in entries)
    for wanted in (AuditFilter(resource="c"), AuditFilter(principal="script"), AuditFilter(since_ms=1)):
        assert len(await read(path, wanted)) <= 6
    assert await read(path, AuditFilter(resource="deep")) == []


async def test_a_page_has_a_bounded_size(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    written(path, *(line(number, reason="x" * 8_000) for number in range(600)))
    reader = AuditReader(str(path), 3)
    page = await reader.page(ALL, before=None, lines=500)
    assert sum(len(one.line) for one in page.entries) <= audit_reader.MAX_TEXT + MAX_LINE
    assert page.next is not None
    assert numbers(await read(path, lines=500)) == list(reversed(range(600)))


@pytest.mark.parametrize("text", ["x", "1-", "-1", "1-2-3", "9" * 30 + "-1", "1-\u0661", "../../etc/passwd"])
def test_a_position_is_that_of_a_page(text: str):
    with pytest.raises(InvalidRequestError, match="expected the next of a page"):
        Position.of(text)


async def test_without_a_file_there_are_no_lines(tmp_path: Path):
    assert await read(tmp_path / "none" / "audit.jsonl") == []
    (tmp_path / "audit.jsonl").touch()
    assert await read(tmp_path / "audit.jsonl") == []


async def test_what_is_no_file_is_refused(tmp_path: Path):
    """Reading a pipe would take lines from its reader, and wait."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/full"), tmp_path):
        with pytest.raises(StorageError, match="is not a file"):
            await read(path)


async def test_a_disk_that_hangs_delays_nobody_else_and_work_for_it_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, goes_on = tmp_path / "audit.jsonl", threading.Event()
    written(path, line(0))
    pread = os.pread

    def hangs(*args: int) -> bytes:
        goes_on.wait(60)
        return pread(*args)

    monkeypatch.setattr(audit_reader.os, "pread", hangs)
    monkeypatch.setattr(audit_reader, "WITHIN_S", 0.05)
    reader = AuditReader(str(path), 3)
    asked = (reader.page(ALL, before=None, lines=5) for _ in range(20))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    kinds = [type(one) for one in answers]
    assert (kinds.count(StorageError), kinds.count(OverloadedError)) == (8, 12)
    with pytest.raises(OverloadedError):
        await reader.page(ALL, before=None, lines=5)
    goes_on.set()
    monkeypatch.setattr(audit_reader, "WITHIN_S", 60)
    async with asyncio.timeout(60):
        while True:
            try:
                page = await reader.page(ALL, before=None, lines=5)
                break
            except OverloadedError:
                await asyncio.sleep(0.01)
    assert numbers(page.entries) == [0]


def test_a_shutdown_does_not_wait_for_a_disk_that_hangs(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    written(path, line(0))
    code = f"""
import asyncio, os, threading
from raftlog.security import audit_reader
from raftlog.security.audit_search import AuditFilter
audit_reader.os.pread = lambda *_: threading.Event().wait()
audit_reader.WITHIN_S = 0.05
reader = audit_reader.AuditReader({str(path)!r}, 3)
try:
    asyncio.run(reader.page(AuditFilter(), before=None, lines=5))
except audit_reader.StorageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert "was not read within" in done.stdout
    assert done.stderr == ""
