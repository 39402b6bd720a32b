"""Java programs of Kafka and Spark that scripts/install-kafka-tools.sh fetched."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

TOOLS_LIBS = Path(__file__).parents[3] / ".tools" / "kafka-tools" / "libs"
SPARK_LIBS = TOOLS_LIBS.parents[1] / "kafka-spark" / "libs"
JAVA = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{TOOLS_LIBS}/*"]
SOON_S = 60


def needs(libs: Path) -> pytest.MarkDecorator:
    """Return the mark of a test that is skipped without these jars."""
    return pytest.mark.skipif(not libs.exists(), reason="needs scripts/install-kafka-tools.sh")


class JavaProcess:
    """A Java program that runs until it is killed; leaving `with` kills it. What it writes goes to the file `log`."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.log = log
        self._arguments = arguments

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        with self.log.open("ab") as file:
            self._process = subprocess.Popen([*JAVA, *self._arguments], stdout=file, stderr=file, cwd=self.log.parent)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Ask the program to end, as Ctrl-C does, and wait for it."""
        self._process.terminate()
        self._process.wait(SOON_S)

    def check(self) -> None:
        """Fail when the program has ended."""
        assert self._process.poll() is None, self.log.read_text()[-4000:]


def wait_until(what: str, holds: Callable[[], bool], *processes: JavaProcess, seconds: float = SOON_S) -> None:
    """Wait until `holds`; fail when it does not in time, or when a process ends."""
    deadline = time.monotonic() + seconds
    while not holds():
        for process in processes:
            process.check()
        late = "".join(f"\n{process.log.read_text()[-3000:]}" for process in processes)
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}{late}"
        time.sleep(0.2)
