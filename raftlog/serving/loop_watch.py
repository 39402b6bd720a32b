"""Measures event loop lag: heartbeats, fetches and acknowledgements all wait while a callback blocks the loop.

A `TurnLoop` reports its long turns, and costs nothing while it is idle. In any other loop, a timer measures how late it
is.

A stall counts only as far as the loop's own thread used the CPU: on a busy machine every loop is late, without any
request being the cause.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from raftlog.serving.loop_turns import turns_of

_log = logging.getLogger(__name__)
BEAT_S = 0.02
"""How often (s) a loop without turns of its own is measured. Each time costs a core 0.1 ms."""
STALL_S = 0.05
LOG_INTERVAL_S = 10.0
"""The least time between two log lines about stalls."""
WINDOW_S = 60.0
_STAT = Path("/proc/stat")
_STOLEN_BEATS, _STOLEN_SAMPLES = 10, 50
"""How often the stolen time is read, which takes some 50 us, and how many samples are kept."""
_LONG_COLLECTION_S = 0.005
STALL_FILE = "RAFTLOG_STALL_FILE"
"""Environment variable: a file to which each stall is appended, with stack traces. For tests."""


class LoopWatch:
    """Measures the running loop's lag."""

    def __init__(self) -> None:
        self.stalls = 0
        """The number of stalls longer than `STALL_S`."""
        self._loop = asyncio.get_running_loop()
        self._turns = turns_of(self._loop)
        self._lags: deque[tuple[float, float]] = deque()
        """(time, lag) within the window, with decreasing lags: the first one is the maximum."""
        self._expected = self._cpu = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._logged_at, self._unlogged, self._worst_s = float("-inf"), 0, 0.0
        file = os.environ.get(STALL_FILE)
        self._stacks = _Stacks(Path(file), self._turn_began) if file else None

    def start(self) -> None:
        """Start measuring."""
        if self._turns is None:
            self._schedule()
        else:
            self._turns.report_to(self._measured)
        if self._stacks is not None:
            self._stacks.start()

    def close(self) -> None:
        """Stop measuring."""
        if self._turns is not None:
            self._turns.report_to(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._stacks is not None:
            self._stacks.close()

    @property
    def lag_s(self) -> float:
        """The longest lag within the last minute, in seconds."""
        self._forget(self._loop.time())
        return self._lags[0][1] if self._lags else 0.0

    def _schedule(self) -> None:
        self._expected, self._cpu = self._loop.time() + BEAT_S, time.thread_time()
        self._timer = self._loop.call_at(self._expected, self._beat)

    def _beat(self) -> None:
        now = self._loop.time()
        # CPU time since the last beat, because the blocking callback may have begun before this beat was due.
        self._measured(now, max(0.0, min(now - self._expected, time.thread_time() - self._cpu)))
        self._schedule()

    def _turn_began(self) -> float:
        """Return when the callbacks began that run now (`time.monotonic`); 0: none run."""
        return self._expected if self._turns is None else self._turns.began

    def _measured(self, now: float, lag: float) -> None:
        self._forget(now)
        while self._lags and self._lags[-1][1] <= lag:
            self._lags.pop()
        self._lags.append((now, lag))
        if lag > STALL_S:
            self._note(now, lag)
        if self._stacks is not None:
            self._stacks.turn_ended(lag)

    def _forget(self, now: float) -> None:
        while self._lags and now - self._lags[0][0] > WINDOW_S:
            self._lags.popleft()

    def _note(self, now: float, lag: float) -> None:
        self.stalls += 1
        self._unlogged += 1
        self._worst_s = max(self._worst_s, lag)
        if now - self._logged_at >= LOG_INTERVAL_S:
            _log.warning(
                "the event loop was blocked %d times, for up to %.0f ms; requests waited for that long",
                self._unlogged,
                1000 * self._worst_s,
            )
            self._logged_at, self._unlogged, self._worst_s = now, 0, 0.0


def stolen_s() -> float:
    """Return for how long (s) the host of a virtual machine has kept a processor from it since it booted: their mean.

    Source: `steal` in proc_stat(5). It counts as CPU time of the thread that ran. The sum over the processors would
    hide stalls while the host keeps all of them.
    """
    with suppress(OSError, IndexError):
        stolen = int(_STAT.read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")
        return stolen / (os.cpu_count() or 1)
    return 0.0


class _Stacks:
    """Samples the stack of the loop's thread while it is late, from a thread of its own.

    A stall counts without the time that the host kept from the machine meanwhile.
    """

    def __init__(self, file: Path, turn_began: Callable[[], float]) -> None:
        self._file = file
        self._watched = threading.get_ident()
        self._turn_began = turn_began
        self._seen: list[str] = []
        self._stolen = deque([(time.monotonic(), stolen_s())], maxlen=_STOLEN_SAMPLES)
        """(time, stolen) at some times, oldest first."""
        self._collected: list[str] = []
        """Garbage collections since the last turn's end that took long: no other thread runs meanwhile."""
        self._collecting = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop watch", daemon=True)

    def start(self) -> None:
        self._thread.start()
        gc.callbacks.append(self._note_collection)

    def close(self) -> None:
        if self._note_collection in gc.callbacks:
            gc.callbacks.remove(self._note_collection)
        self._ended.set()
        self._thread.join()

    def _note_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
        elif (took := time.thread_time() - self._collecting) > _LONG_COLLECTION_S:
            self._collected.append(f"garbage collection {info['generation']} took {1000 * took:.0f} ms\n")

    def turn_ended(self, lag: float) -> None:
        seen, self._seen = self._seen, []
        collected, self._collected = self._collected, []
        if lag > STALL_S and lag - (stolen := self._stolen_within(lag)) > STALL_S:
            looks = "".join(collected) + ("---\n".join(seen) or "between two looks\n")
            more = f", without {1000 * stolen:.0f} ms that the host kept" if stolen else ""
            with self._file.open("a") as file:
                file.write(f"{1000 * (lag - stolen):.0f} ms, process {os.getpid()}{more}:\n{looks}\n")

    def _stolen_within(self, lag: float) -> float:
        """Return how much was stolen since the last sample before a stall of `lag` s that ends now."""
        began = time.monotonic() - lag
        before = [stolen for at, stolen in list(self._stolen) if at <= began]
        return stolen_s() - (before[-1] if before else self._stolen[0][1])

    def _watch(self) -> None:
        beats = 0
        while not self._ended.wait(BEAT_S):
            beats += 1
            if beats % _STOLEN_BEATS == 0:
                self._stolen.append((time.monotonic(), stolen_s()))
            began = self._turn_began()
            if began and time.monotonic() - began > STALL_S / 2 and len(self._seen) < 5:
                frame = sys._current_frames().get(self._watched)  # noqa: SLF001  (there is no other way)
                if frame is not None:
                    self._seen.append("".join(traceback.format_stack(frame)[-8:]))
