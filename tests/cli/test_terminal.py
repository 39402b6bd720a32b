"""What others wrote, on a terminal: no record, member or error moves the cursor or hides text."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys

import orjson
import pytest

from raftlog import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.terminal import bytes_on_terminal, escaped

EVIL = b"\x1b]0;owned\x07\x1b[2Jgone\r\x9b31m\x00\x7f"
BIDI = "abc\u202egpj.exe"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00e9 \u65e5\u672c \U0001f600\n\tindented", "plain \u00e9 \u65e5\u672c \U0001f600\n\tindented"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m\x7f\x00\r", "\\x9b31m\\x7f\\x00\\x0d"),
        (BIDI, "abc\\u202egpj.exe"),
    ],
)
def test_control_characters_are_escaped_and_nothing_else(text: str, shown: str):
    assert escaped(text) == shown


def test_json_stays_json():
    document = orjson.dumps({"value": "\x7f\x9b" + BIDI})
    shown = bytes_on_terminal(document, json=True)
    assert orjson.loads(shown) == orjson.loads(document)
    assert shown.isascii()


def on_a_terminal(*arguments: str) -> bytes:
    """Run a command whose standard output is a terminal; return what the terminal got."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "raftlog", *arguments], stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL
    )
    os.close(theirs)
    shown = b""
    try:
        while more := os.read(ours, 65_536):
            shown += more
    except OSError:  # Linux says so at the end.
        pass
    finally:
        os.close(ours)
        process.wait(timeout=30)
    return shown.replace(b"\r\n", b"\n")


@pytest.mark.cluster
async def test_records_and_members_cannot_write_to_a_terminal(shared_cluster: LocalCluster, topic_name: str):
    bootstrap = ["--bootstrap", shared_cluster.bootstrap]
    async with Admin(shared_cluster.bootstrap) as admin, Producer(shared_cluster.bootstrap) as producer:
        await admin.create_topic(topic_name)
        await producer.send(topic_name, EVIL, key=EVIL)
        await producer.send(topic_name, BIDI.encode())
    reading = ["consume", topic_name, *bootstrap, "--from-beginning", "--max-records", "2", "--timeout", "20"]

    values = await asyncio.to_thread(on_a_terminal, *reading)
    lines = await asyncio.to_thread(on_a_terminal, *reading, "--format", "json")

    assert values == b"\\x1b]0;owned\\x07\\x1b[2Jgone\\x0d\\x9b31m\\x00\\x7f\nabc\\u202egpj.exe\n"
    assert lines.replace(b"\n", b"").isascii()
    assert [orjson.loads(line)["offset"] for line in lines.splitlines()] == [0, 1]

    group = f"{topic_name}\x1b[2J"
    error = await asyncio.to_thread(on_a_terminal, "groups", "describe", group, *bootstrap)
    assert b"\\x1b[2J" in error
    assert b"\x1b[2J" not in error

    piped = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "raftlog", *reading], capture_output=True, check=True
    )
    assert piped.stdout == EVIL + b"\n" + BIDI.encode() + b"\n"
