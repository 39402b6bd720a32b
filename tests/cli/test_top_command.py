"""`raftlog top` on a real cluster with load: in a pseudo-terminal, once, and in a pipe."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hostile_broker import Hostile, serving

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.main import cli
from raftlog.cli.top import watcher

WITHIN_S = 60.0
_CODES = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|[=>])")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    with LocalCluster(tmp_path_factory.mktemp("top"), controllers=1, brokers=2, port=0) as cluster:
        asyncio.run(prepare(cluster.bootstrap))
        yield cluster


async def prepare(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic("flights", partitions=2, replication_factor=2)
    async with Producer(bootstrap) as producer:
        await producer.send("flights", b"first")
    async with Consumer(bootstrap, "flights", group_id="loaders", auto_offset_reset="earliest") as consumer:
        while not await consumer.fetch():
            pass
        await consumer.commit()


@pytest.fixture
def load(cluster: LocalCluster) -> Iterator[None]:
    """Send records during a test."""
    stop = threading.Event()

    async def send() -> None:
        async with Producer(cluster.bootstrap) as producer:
            while not stop.is_set():
                await producer.send_many("flights", [b"x" * 1_000] * 50)
                await asyncio.sleep(0.05)

    thread = threading.Thread(target=lambda: asyncio.run(send()))
    thread.start()
    yield
    stop.set()
    thread.join(30)


class Terminal:
    """A process in a terminal of its own, of 80 columns and 24 lines."""

    def __init__(self, *command: str) -> None:
        self.ours, self.theirs = os.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(self.theirs)
        self.shown = b""
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def text(self) -> str:
        return _CODES.sub(b"", self.shown).decode("utf-8", "replace")

    def wait_for(self, found: Callable[[str], Any]) -> None:
        """Read until what was shown since the last call has something."""
        deadline = time.monotonic() + WITHIN_S
        while not found(self.text()):
            assert time.monotonic() < deadline, self.text()[-4_000:]
            assert self.process.poll() is None, self.text()[-4_000:]
            self.read()

    def read(self) -> None:
        while select.select([self.ours], [], [], 0.2)[0]:
            self.shown += os.read(self.ours, 65_536)

    def ended(self) -> int:
        """Wait for the end of the process, and return its exit code."""
        deadline = time.monotonic() + WITHIN_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.text()[-4_000:]
            self.read()
        self.read()
        return self.process.returncode

    def is_as_before(self) -> bool:
        """Return whether the screen, the cursor and the modes are those of before."""
        left = self.shown.rfind(b"\x1b[?1049l") > self.shown.rfind(b"\x1b[?1049h") > -1
        cursor = self.shown.rfind(b"\x1b[?25h") > self.shown.rfind(b"\x1b[?25l") > -1
        return left and cursor and termios.tcgetattr(self.theirs) == self.before


@contextmanager
def terminal(*command: str) -> Iterator[Terminal]:
    shown = Terminal(*command)
    try:
        yield shown
    finally:
        if shown.process.poll() is None:
            shown.process.kill()
        shown.process.wait(30)
        os.close(shown.ours)
        os.close(shown.theirs)


def top(cluster: LocalCluster) -> tuple[str, ...]:
    return ("-m", "raftlog", "top", "--bootstrap", cluster.bootstrap, "--interval", "0.5")


@pytest.mark.cluster
@pytest.mark.usefixtures("load")
def test_a_terminal_shows_the_load_and_keys_sort_it(cluster: LocalCluster):
    with terminal(*top(cluster)) as shown:
        shown.wait_for(lambda text: re.search(r"flights +[0-9.]+[kM]? +[0-9]", text))
        for part in ("HEALTHY   2 brokers, 1 controller", "101 active", "1 ok", "2 ok", "/v1/produce", "q quit"):
            assert part in shown.text(), part
        shown.shown = b""
        shown.type(b"l")
        shown.wait_for(lambda text: "sorted by lag" in text)
        assert termios.tcgetattr(shown.theirs) != shown.before
        shown.shown = b"\x1b[?1049h\x1b[?25l"
        shown.resize(40, 100)
        os.kill(shown.process.pid, signal.SIGWINCH)
        shown.wait_for(lambda text: re.search(r"BROKER {30,}LED/ALL.*DISK", text))
        shown.type(b"q")
        assert shown.ended() == 0
        assert shown.is_as_before()


@pytest.mark.cluster
@pytest.mark.parametrize("way", ["ctrl-c", "SIGTERM", "SIGHUP"])
def test_the_terminal_is_left_as_it_was_after(cluster: LocalCluster, way: str):
    with terminal(*top(cluster)) as shown:
        shown.wait_for(lambda text: "101 active" in text)
        if way == "ctrl-c":
            shown.type(b"\x03")
        else:
            os.kill(shown.process.pid, getattr(signal, way))
        assert shown.ended() == 0
        assert shown.is_as_before()
        assert "Traceback" not in shown.text()


CRASHING = """
import itertools, sys
from raftlog.cli.main import cli
from raftlog.cli.top import watcher
from raftlog.cli.top import command
frames = itertools.count()
def boom(reading, found=command.overview):
    if next(frames) > 2:
        raise RuntimeError("a bug")
    return found(reading)
command.overview = boom
cli(sys.argv[1:])
"""


@pytest.mark.cluster
def test_the_terminal_is_left_as_it_was_after_a_crash(cluster: LocalCluster):
    with terminal("-c", CRASHING, *top(cluster)[2:]) as shown:
        assert shown.ended() == 1
        assert shown.is_as_before()
        assert "RuntimeError: a bug" in shown.text()


@pytest.mark.cluster
def test_a_hung_broker_is_shown_and_delays_nobody(cluster: LocalCluster):
    with terminal(*top(cluster)) as shown:
        shown.wait_for(lambda text: "2 ok" in text)
        cluster.kill("broker-2", signal.SIGSTOP)
        try:
            shown.wait_for(lambda text: "no answer from broker 2" in text)
            shown.shown = b""
            shown.wait_for(
                lambda text: len(set(re.findall(r"[0-9]{2}:[0-9]{2}:[0-9]{2}", text))) >= 3 and "1 ok" in text
            )
        finally:
            cluster.kill("broker-2", signal.SIGCONT)
        shown.shown = b""
        shown.wait_for(lambda text: re.search(r"2 ok", text))
    cluster.wait_ready()


@pytest.mark.cluster
def test_once_prints_a_frame_and_json_an_object(cluster: LocalCluster):
    given = ["top", "--bootstrap", cluster.bootstrap, "--interval", "0.3"]
    once = CliRunner().invoke(cli, [*given, "--once", "--sort", "in"])
    assert once.exit_code == 0, once.output
    assert once.stdout.startswith("raftlog top   cluster ")
    assert "loaders" in once.stdout
    assert max(map(len, once.stdout.splitlines())) <= 120

    document = json.loads(CliRunner().invoke(cli, [*given, "--json"]).stdout)
    assert document["cluster_id"] == cluster.cluster_id
    assert [row["state"] for row in document["brokers"]] == ["ok", "ok"]
    assert [row["state"] for row in document["controllers"]] == ["active"]
    assert document["requests_per_s"] > 0
    assert [row["group"] for row in document["groups"]] == ["loaders"]


@pytest.mark.cluster
def test_in_a_pipe_frames_follow_each_other_until_it_closes(cluster: LocalCluster):
    process = subprocess.Popen(
        [sys.executable, *top(cluster)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    frames = 0
    for line in process.stdout:
        frames += line.startswith("raftlog top")
        assert "\x1b" not in line
        if frames == 2:
            break
    process.stdout.close()
    assert process.wait(30) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize("endless", [False, True])
def test_a_hostile_broker_neither_hangs_nor_writes_to_the_terminal(endless: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watcher, "MAX_PAGE_BYTES", 3_000_000)  # The list of brokers has half of it.
    with serving(type("One", (Hostile,), {"endless": endless})) as url:
        begun = time.monotonic()
        done = CliRunner().invoke(cli, ["top", "--once", "--interval", "0.2", "--bootstrap", url])
        assert time.monotonic() - begun < 40
    assert done.exit_code == 0, done.output
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert "no answer from broker 0, broker 1, broker 2, broker 3 and 46 more" in done.stdout
    assert ("more than 3000000 bytes" in done.stdout) == endless


def test_without_a_cluster_it_says_so(free_ports: Any):
    (port,) = free_ports(1)
    done = CliRunner().invoke(cli, ["top", "--bootstrap", f"http://127.0.0.1:{port}"])
    assert done.exit_code == 1
    assert "no broker listens at" in done.stderr
