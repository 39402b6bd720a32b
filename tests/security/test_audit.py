"""What the audit log says and sums up, and its file: rotation, full disks, floods, and slow writers."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from raftlog.errors import AuthorizationError, ConfigError, InvalidRequestError
from raftlog.model import Acl
from raftlog.security import audit as subject
from raftlog.security import audit_file
from raftlog.security.access import Access, TopicReads
from raftlog.security.audit import AuditTrail, Line, detail_of
from raftlog.security.audit_file import AuditFile
from raftlog.security.audited_changes import audited, note_errors
from raftlog.security.identity import Sender
from raftlog.security.passwords import scram_credential
from raftlog.security.principal import Principal
from raftlog.security.routes import INTERNAL, PUBLIC
from raftlog.wire.admin import AclsRequest, PutUserRequest, QuotaRequest, ReassignmentRequest, ReassignPartition
from raftlog.wire.groups import CommitOffset, OffsetCommitRequest

ANN = Sender(Principal("User:ann"), "10.0.0.1", "public", "POST /v1/fetch")


class Trail(AuditTrail):
    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.now_us = 1_000_000_000_000_000
        super().__init__("broker-1", self.lines.append, lambda: self.now_us)

    def refuse(self, sender: Sender = ANN, name: str = "t") -> None:
        self.denied(sender, "may not", operation="read", resource="topic", name=name, enforced=True)

    def new(self) -> list[Line]:
        found = list(self.lines)
        self.lines.clear()
        return found


def test_a_denial_says_who_what_where_and_when():
    trail = Trail()
    trail.refuse()
    assert trail.lines == [
        {
            "time": "2001-09-09T01:46:40.000+00:00",
            "node": "broker-1",
            "event": "denial",
            "principal": "User:ann",
            "address": "10.0.0.1",
            "listener": "public",
            "route": "POST /v1/fetch",
            "operation": "read",
            "resource": "topic",
            "name": "t",
            "outcome": "denied",
            "reason": "may not",
        }
    ]


def test_a_burst_of_equal_denials_is_two_lines():
    trail = Trail()
    for _ in range(10_000):
        trail.refuse()
    assert len(trail.new()) == 1
    trail.end_interval()
    (line,) = trail.new()
    assert (line["repeated"], line["name"], line["since"]) == (9_999, "t", "2001-09-09T01:46:40.000+00:00")
    trail.end_interval()
    assert trail.new() == []
    trail.refuse()
    assert len(trail.new()) == 1


def test_a_burst_of_different_denials_is_a_few_lines_and_hides_no_other_sender_and_no_change():
    trail = Trail()
    for number in range(10_000):
        trail.refuse(name=f"t{number}")
    assert len(trail.new()) == subject.MAX_LINES
    trail.refuse(Sender(Principal("User:bob"), "10.0.0.2"))
    trail.changed(ANN, outcome="allowed", name={"topic": "t"})
    assert [line["event"] for line in trail.new()] == ["denial", "change"]
    trail.end_interval()
    (line,) = trail.new()
    assert (line["principal"], line["more"]) == ("User:ann", 10_000 - subject.MAX_LINES)


def test_a_flood_of_many_addresses_is_bounded():
    trail = Trail()
    for number in range(3 * subject.MAX_SENDERS):
        trail.refuse(Sender(Principal("User:ANONYMOUS"), f"2001:db8::{number:x}"))
    assert len(trail.new()) == subject.MAX_KEPT
    assert len(trail._kept) == subject.MAX_SENDERS
    begin = time.thread_time()
    trail.end_interval()
    assert time.thread_time() - begin < 0.5
    (line,) = trail.new()
    assert (line["principal"], line["address"], line["more"]) == ("", "", 2 * subject.MAX_SENDERS)


def test_a_login_is_written_at_the_first_sight_of_its_credentials():
    trail = Trail()
    for _ in range(3):
        trail.logged_in("User:ann", "10.0.0.1", "password", b"1")
        trail.logged_in("Broker:1", "10.0.0.9", "node")
    trail.logged_in("User:ann", "10.0.0.2", "password", b"1")
    assert [line["address"] for line in trail.new()] == ["10.0.0.1", "10.0.0.9", "10.0.0.2"]
    trail.end_interval()
    assert trail.new() == []
    for number in range(subject.MAX_CREDENTIALS + 5):
        trail.logged_in("User:ann", "10.0.0.1", "token", b"%d" % number)
    assert len(trail._credentials) == subject.MAX_CREDENTIALS


def test_failed_logins_are_summed_up_by_address():
    trail = Trail()
    for number in range(1_000):
        trail.login_failed("10.0.0.1", "password", f"the password of user u{number}, or the user, is wrong")
    trail.login_failed("10.0.0.2", "token", "it expired")
    assert len(trail.new()) == subject.MAX_LINES + 1
    trail.end_interval()
    (line,) = trail.new()
    assert line["event"] == "login"
    assert line["address"] == "10.0.0.1"


def test_reads_and_writes_are_summed_up_by_principal_and_topic():
    trail = Trail()
    rules = [Acl(principal="ann", operation="read", resource_type="topic", resource_name="*")]
    access = Access("acl", lambda: rules, audit=trail)
    for _ in range(1_000):
        access.require(ANN, "read", "topic", "t")
    access.require(ANN, "read", "topic", "u")
    access.may(ANN, "write", "topic", "t")
    assert [line["event"] for line in trail.new()] == ["denial"]
    trail.now_us += 60_000_000
    trail.end_interval()
    uses = [(line["name"], line["operation"], line["requests"]) for line in trail.new()]
    assert uses == [("t", "read", 1_000), ("u", "read", 1)]


def test_uses_of_any_number_of_topics_are_a_bounded_number_of_lines():
    """6,000 topics in turn wrote a line for each read, and one fetch of 10,000 names that do not exist wrote 5,000."""
    trail = Trail()
    for _ in range(3):
        for number in range(2 * subject.MAX_USES_OF_ONE):
            trail.used("User:ann", "read", f"t{number}")
    trail.used("User:bob", "read", "t")
    assert trail.new() == []
    trail.end_interval()
    *sums, more = trail.new()
    assert [line["name"] for line in sums] == [*(f"t{number}" for number in range(subject.MAX_USES_OF_ONE)), "t"]
    assert {line["requests"] for line in sums[:-1]} == {3}
    assert (more["event"], more["principal"], more["operation"]) == ("use", "User:ann", "read")
    assert more["more"] == 3 * subject.MAX_USES_OF_ONE

    for number in range(subject.MAX_USES + 2 * subject.MAX_SENDERS):
        trail.used(f"User:{number}", "read", "t")
    trail.end_interval()
    *_, others = lines = trail.new()
    assert len(lines) == subject.MAX_USES + subject.MAX_SENDERS + 1
    assert (others["principal"], others["more"]) == ("", subject.MAX_SENDERS)


def test_a_request_that_reads_again_and_again_is_noted_once():
    """A long poll was noted when it began to listen, and at each record that woke it."""
    trail, rules = Trail(), list[tuple[Acl, ...]]([()])
    access = Access("acl", lambda: rules[-1], audit=trail)
    refused, reads = TopicReads(access, ANN), TopicReads(access, ANN)
    for _ in range(3):
        with pytest.raises(AuthorizationError, match="User:ann may not read topic 't'"):
            refused.require("t")
    assert access.refused == 1
    rules.append((Acl(principal="ann", operation="read", resource_type="topic", resource_name="t"),))
    for _ in range(3):
        reads.require("t")
        refused.require("t")
    rules.append(())
    with pytest.raises(AuthorizationError):  # The rules changed during the long poll.
        reads.require("t")
    trail.end_interval()
    lines = [(line["event"], line.get("repeated"), line.get("requests")) for line in trail.new()]
    assert lines == [("denial", None, None), ("denial", 1, None), ("use", None, 2)]


async def test_changes_that_failed_are_summed_up_and_others_are_not():
    """A sender without any right filled the log until it held nothing else."""
    trail = Trail()

    async def handler(request: web.Request) -> web.Response:
        if "fails" in request.query:
            raise InvalidRequestError("Content-Encoding: expected none, received 'x'")
        return web.Response()

    for query in ["?fails"] * 100 + [""] * 3:
        request = make_mocked_request("POST", f"/v1/topics{query}", match_info={})
        with suppress(InvalidRequestError):
            await audited(trail, ANN, request, handler, is_change=True)
    trail.end_interval()
    lines = [(line["outcome"], line.get("repeated")) for line in trail.new()]
    assert lines == [("failed", None), *[("allowed", None)] * 3, ("failed", 99)]


async def test_a_change_of_which_all_failed_is_summed_up_and_one_of_which_some_succeeded_is_not():
    """A commit whose offsets were all refused was "allowed"."""
    trail = Trail()

    async def handler(request: web.Request) -> web.Response:
        note_errors(request, int(request.query["errors"]), 2)
        return web.Response()

    for errors in (0, 1, 1, 2, 2):
        request = make_mocked_request("POST", f"/v1/groups/g/offsets/delete?errors={errors}", match_info={"group": "g"})
        await audited(trail, ANN, request, handler, is_change=True)
    trail.end_interval()
    lines = [(line["outcome"], line.get("repeated")) for line in trail.new()]
    assert lines == [("allowed", None), ("failed", None), ("failed", None), ("failed", None), ("failed", 1)]


def commit(topic: str, offset: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(offsets=(CommitOffset(topic=topic, partition=0, offset=offset),))


def test_a_reset_of_one_topic_does_not_vanish_behind_those_of_another():
    trail = Trail()
    for topic, offset in (("harmless", 1), ("invoices", 999_999), ("harmless", 2), ("harmless", 3)):
        trail.changed(ANN, outcome="allowed", name={"group": "g"}, command=commit(topic, offset), often=True)
    trail.end_interval()
    lines: list[Any] = trail.new()
    seen = [(line["detail"]["offsets"][0]["topic"], line["detail"]["offsets"][0]["offset"]) for line in lines]
    assert seen == [("harmless", 1), ("invoices", 999_999), ("harmless", 3)]
    assert lines[-1]["repeated"] == 2


def test_the_fields_of_a_request_that_changed_nothing_are_read_once(monkeypatch: pytest.MonkeyPatch):
    """They took 3 ms for each of a sender's requests, for which no right is needed."""
    trail, read = Trail(), list[object]()
    real = subject.detail_of
    monkeypatch.setattr(subject, "detail_of", lambda command: read.append(command) or real(command))
    for number in range(100):
        command = commit(f"t{number}", 1)
        trail.changed(ANN, outcome="failed", name={"group": "g"}, command=command, has_effect=False)
    assert len(read) == 1
    trail.end_interval()
    first, rest = trail.new()
    assert "detail" in first
    assert ("detail" in rest, rest["repeated"]) == (False, 99)


def test_an_interval_ends_at_once_and_its_sums_are_written_one_by_one():
    """5,000 senders and as many topics took 85 ms in one turn of the event loop."""
    trail = Trail()
    for name in ("t", "u"):
        trail.used("User:ann", "read", name)
    trail.refuse()
    trail.refuse()
    assert len(trail.new()) == 1
    sums = trail.next_interval()
    trail.used("User:ann", "read", "v")
    assert trail.new() == []
    for expected in ("t", "t", "u"):
        next(sums)
        (line,) = trail.new()
        assert line["name"] == expected
    assert next(sums, "over") == "over"
    trail.end_interval()
    assert [line["name"] for line in trail.new()] == ["v"]


def test_no_long_name_of_a_client_is_kept():
    trail = Trail()
    rules = [Acl(principal="ann", operation="read", resource_type="topic", resource_name="*")]
    access = Access("acl", lambda: rules, audit=trail)
    tracemalloc.start()
    try:
        for number in range(200):
            access.may(ANN, "read", "topic", f"{number}".ljust(32_000, "x"))
            access.may(ANN, "write", "topic", f"{number}".ljust(32_000, "x"))
            name = {"group": f"{number}".ljust(32_000, "x")}
            trail.changed(ANN, outcome="allowed", name=name, often=True)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20


def test_log_only_says_what_would_be_refused():
    trail = Trail()
    Access("log-only", tuple, audit=trail).require(ANN, "read", "topic", "t")
    assert trail.lines[0]["outcome"] == "would_deny"


def test_commands_are_shown_without_secrets_and_values():
    credential = scram_credential("ann", "secret-1", b"salt", iterations=1)
    assert detail_of(PutUserRequest(credential=credential)) == {}
    assert detail_of(QuotaRequest(user="ann", limits={"producer_byte_rate": 5.0})) == {
        "user": "ann",
        "limits": ["producer_byte_rate"],
    }
    acl = Acl(principal="ann", operation="read", resource_type="topic", resource_name="t" * 1_000)
    shown: Any = detail_of(AclsRequest(acls=(acl,) * 1_000))
    assert len(shown["acls"]) == 101
    assert shown["acls"][-1] == "and 900 more"
    assert len(shown["acls"][0]["resource_name"]) == 300
    assert detail_of(None) == {}


def test_lists_of_lists_are_shown_in_part():
    moved = ReassignPartition(topic="t", partition=0, replicas=(1,) * 200)
    shown: Any = detail_of(ReassignmentRequest(partitions=(moved,) * 300))
    values = sum(len(one["replicas"]) for one in shown["partitions"][:-1])
    assert 1_000 < values < 2_000
    assert shown["partitions"][0]["replicas"][-1] == "and 100 more"
    assert shown["partitions"][-1] == f"and {300 - len(shown['partitions']) + 1} more"


def test_the_changes_are_the_administrative_routes():
    """A new route that changes something must be seen here."""
    changes = {route.name for route in PUBLIC if route.is_change}
    assert changes == {
        "PATCH /v1/features",
        "DELETE /v1/brokers/{broker}",
        "PATCH /v1/brokers/{broker}/configs",
        "POST /v1/brokers/{broker}/scrub",
        "POST /v1/reassignments",
        "POST /v1/leader-elections",
        "PUT /v1/users/{user}",
        "DELETE /v1/users/{user}",
        "POST /v1/acls",
        "DELETE /v1/acls",
        "PATCH /v1/quotas",
        "POST /v1/topics",
        "PATCH /v1/topics/{topic}",
        "DELETE /v1/topics/{topic}",
        "POST /v1/topics/{topic}/partitions/{partition}/delete-records",
        "DELETE /v1/groups/{group}",
        "POST /v1/groups/{group}/offsets/delete",
    }
    assert {route.path for route in INTERNAL if route.is_change and not route.path.startswith("/internal/v1/")} == set()
    assert len([route for route in INTERNAL if route.is_change]) == 13


# The file.


def lines_of(*paths: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_text().split("\n") if line]


def line(number: int, **more: object) -> Line:
    return {"time": "t", "node": "n", "event": "e", "number": number, **more}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_file_rotates_by_size_and_its_number_is_bounded(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    file = AuditFile(str(path), max_bytes=1_000, files=3)
    for number in range(100):
        file.put(line(number))
    file.close()
    names = ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    assert sorted(found.name for found in tmp_path.iterdir()) == names
    assert all((tmp_path / name).stat().st_size <= 1_000 for name in names)
    numbers = [found["number"] for found in lines_of(*(tmp_path / name for name in reversed(names)))]
    assert numbers == list(range(numbers[0], 100))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    again = AuditFile(str(path), max_bytes=1_000_000, files=3)  # A restart continues the file.
    again.put(line(100))
    again.close()
    assert lines_of(path)[-1]["number"] == 100
    assert len(lines_of(path)) > 1


def test_one_file_is_begun_anew(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    file = AuditFile(str(path), max_bytes=500, files=1)
    for number in range(50):
        file.put(line(number))
    file.close()
    assert [found.name for found in tmp_path.iterdir()] == ["audit.jsonl"]
    assert lines_of(path)[-1]["number"] == 49


def test_control_characters_and_odd_text_are_escaped(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    file = AuditFile(str(path), max_bytes=1 << 20, files=2)
    file.put(line(1, name='a\n{"event":"forged"}\x1b[2J\u2028\x9b\x7f\u202e'))
    file.put(line(2, name="\udcff"))
    file.put(line(3))
    file.close()
    assert len(path.read_bytes().split(b"\n")) == 4
    assert path.read_text().replace("\n", "").isprintable()
    found = lines_of(path)
    assert found[0]["name"] == 'a\n{"event":"forged"}\x1b[2J\u2028\x9b\x7f\u202e'
    assert [str(one["number"]) for one in found] == ["1", "2", "3"]


def test_a_full_disk_is_reported_once_and_lost_lines_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Half a line may have been written: it is taken back."""
    path, full, attempts = tmp_path / "audit.jsonl", threading.Event(), list[int]()
    real = os.write

    def write(file: int, data: bytes) -> int:
        if not full.is_set():
            return real(file, data)
        attempts.append(1)
        if len(attempts) % 2:
            return real(file, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(audit_file.os, "write", write)
    file = AuditFile(str(path), max_bytes=1 << 20, files=2)
    file.put(line(0))
    until(lambda: path.stat().st_size > 0)
    full.set()
    for number in range(1, 6):
        file.put(line(number))
    until(lambda: file.lost == 5)
    full.clear()
    file.put(line(6))
    file.close()
    found = lines_of(path)
    assert [one["event"] for one in found] == ["e", "lost", "e"]
    assert found[1]["lines"] == file.lost == 5
    assert caplog.text.count("the audit log cannot be written") == 1
    assert caplog.text.count("the audit log is written again") == 1


def test_a_folder_that_cannot_be_written_to_loses_no_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The rotation renames, and cannot open: it must not rename again and again until every old file has gone."""
    path, broken = tmp_path / "audit.jsonl", threading.Event()
    real = os.open

    def open_(*given: Any, **more: Any) -> int:
        if broken.is_set():
            raise OSError(errno.EMFILE, "Too many open files")
        return real(*given, **more)

    monkeypatch.setattr(audit_file.os, "open", open_)
    file = AuditFile(str(path), max_bytes=120, files=3)
    for number in range(4):
        file.put(line(number))
    until(lambda: path.exists() and path.with_name("audit.jsonl.1").exists())
    broken.set()
    for number in range(4, 30):
        file.put(line(number))
    until(lambda: file._lost > 5)
    broken.clear()
    file.put(line(30))
    file.close()
    found = lines_of(*(path.with_name(f"audit.jsonl.{number}") for number in (2, 1)), path)
    assert [one["number"] for one in found if one["event"] == "e"][:4] == [0, 1, 2, 3]
    assert found[-1]["number"] == 30


def test_a_slow_disk_never_blocks_the_caller_and_overflow_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    gate, real = threading.Event(), os.write
    monkeypatch.setattr(audit_file.os, "write", lambda *given: gate.wait(20) and real(*given))
    monkeypatch.setattr(audit_file, "MAX_QUEUED", 100)
    path = tmp_path / "audit.jsonl"
    file = AuditFile(str(path), max_bytes=1 << 20, files=2)
    begin = time.perf_counter()
    for number in range(1_000):
        file.put(line(number))
    assert time.perf_counter() - begin < 10, "the disk takes 20 s"
    assert file.waiting == 100
    assert file.lost >= 799  # The writer has taken some.
    assert caplog.text.count("is written too slowly, lines are lost") == 1
    gate.set()
    until(lambda: len(file._queue) == 0)
    file.put(line(1_000))
    file.close()
    found = lines_of(path)
    written = [one for one in found if one["event"] == "e"]
    assert found[-1]["number"] == 1_000
    assert sum(one["lines"] for one in found if one["event"] == "lost") == file.lost == 1_001 - len(written)
    assert caplog.text.count("the audit log is written again") == 1


def test_lines_that_wait_take_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """20,000 lines of 60 KB took 1.2 GB while a disk hung."""
    gate, real = threading.Event(), os.write
    monkeypatch.setattr(audit_file.os, "write", lambda *given: gate.wait(20) and real(*given))
    monkeypatch.setattr(audit_file, "MAX_QUEUED_BYTES", 100_000)
    path = tmp_path / "audit.jsonl"
    file = AuditFile(str(path), max_bytes=1 << 20, files=2)
    for number in range(100):
        file.put(line(number, text="x" * 10_000))
    assert file.waiting <= 9
    gate.set()
    until(lambda: file.waiting == 0)
    for number in range(100, 105):
        file.put(line(number, text="x" * 10_000))
    file.close()
    found = lines_of(path)
    assert found[-1]["number"] == 104
    assert sum(one["lines"] for one in found if one["event"] == "lost") == file.lost > 80


def test_a_file_that_was_renamed_is_opened_again(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    file = AuditFile(str(path), max_bytes=1 << 20, files=2)
    file.put(line(1))
    until(lambda: path.stat().st_size > 0)
    path.rename(tmp_path / "kept")
    file.reopen()
    until(path.exists)
    file.put(line(2))
    file.close()
    assert [found["number"] for found in lines_of(path)] == [2]


def test_a_path_that_cannot_be_written_is_reported_at_the_start(tmp_path: Path):
    with pytest.raises(ConfigError, match="audit_file"):
        AuditFile(str(tmp_path / "missing" / "audit.jsonl"), max_bytes=1 << 20, files=2)
    with pytest.raises(ConfigError, match="audit_file"):
        AuditFile(str(tmp_path), max_bytes=1 << 20, files=2)


def test_a_file_belongs_to_one_node(tmp_path: Path):
    """Two nodes on a machine with the same absolute path: both would rename it."""
    path = str(tmp_path / "audit.jsonl")
    file = AuditFile(path, max_bytes=1 << 20, files=2)
    with pytest.raises(ConfigError, match="another process writes it"):
        AuditFile(path, max_bytes=1 << 20, files=2)
    file.close()
    AuditFile(path, max_bytes=1 << 20, files=2).close()


def test_lines_may_go_to_the_log_alone(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "raftlog.audit")
    file = AuditFile("", max_bytes=1 << 20, files=2, to_log=True)
    file.put(line(1))
    file.close()
    assert [record.message for record in caplog.records] == ['{"time":"t","node":"n","event":"e","number":1}']
