"""How long a node's event loop stands still: heartbeats, fetches and acknowledgements all wait for it.

A stall counts if the loop's own thread was computing all the while: on a machine that is busy with something else,
every loop is late, and no request is to blame.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from pathlib import Path

_log = logging.getLogger(__name__)
BEAT_S = 0.02
STALL_S = 0.05
TELL_EVERY_S = 10.0
"""Between two lines of the log about stalls."""
WINDOW_S = 60.0
STALL_FILE = "RAFTLOG_STALL_FILE"
"""Environment variable: a file to which each stall is appended, with what the loop was doing. For tests."""


class LoopWatch:
    """Looks at the running loop's clock every `BEAT_S`."""

    def __init__(self) -> None:
        self.stalls = 0
        """How many there were of more than `STALL_S`."""
        self._loop = asyncio.get_running_loop()
        self._lags: deque[tuple[float, float]] = deque()
        """When, and how long: the latest ones, of which none is followed by a longer one."""
        self._expected = self._cpu = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._told_at, self._untold, self._worst_s = float("-inf"), 0, 0.0
        file = os.environ.get(STALL_FILE)
        self._stacks = _Stacks(Path(file)) if file else None

    def start(self) -> None:
        """Begin to watch."""
        self._schedule()
        if self._stacks is not None:
            self._stacks.start()

    def close(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._stacks is not None:
            self._stacks.close()

    @property
    def lag_s(self) -> float:
        """The longest time within the last minute that the loop kept others waiting."""
        self._forget(self._loop.time())
        return self._lags[0][1] if self._lags else 0.0

    def _schedule(self) -> None:
        self._expected, self._cpu = self._loop.time() + BEAT_S, time.thread_time()
        self._timer = self._loop.call_at(self._expected, self._beat)

    def _beat(self) -> None:
        now = self._loop.time()
        # Of the beat itself too: what kept the loop may have begun before this beat was due.
        lag = max(0.0, min(now - self._expected, time.thread_time() - self._cpu))
        self._forget(now)
        while self._lags and self._lags[-1][1] <= lag:
            self._lags.pop()
        self._lags.append((now, lag))
        if lag > STALL_S:
            self._note(now, lag)
        if self._stacks is not None:
            self._stacks.beat(lag)
        self._schedule()

    def _forget(self, now: float) -> None:
        while self._lags and now - self._lags[0][0] > WINDOW_S:
            self._lags.popleft()

    def _note(self, now: float, lag: float) -> None:
        self.stalls += 1
        self._untold += 1
        self._worst_s = max(self._worst_s, lag)
        if now - self._told_at >= TELL_EVERY_S:
            _log.warning(
                "the event loop stood still %d times, for up to %.0f ms: meanwhile nobody was answered",
                self._untold,
                1000 * self._worst_s,
            )
            self._told_at, self._untold, self._worst_s = now, 0, 0.0


class _Stacks:
    """Notes what the loop's thread does while it is late, from a thread of its own."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._watched = threading.get_ident()
        self._beat_at = time.monotonic()
        self._seen: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def beat(self, lag: float) -> None:
        seen, self._seen = self._seen, []
        self._beat_at = time.monotonic()
        if lag > STALL_S:
            looks = "---\n".join(seen) or "between two looks\n"
            with self._file.open("a") as file:
                file.write(f"{1000 * lag:.0f} ms, process {os.getpid()}:\n{looks}\n")

    def _watch(self) -> None:
        while not self._ended.wait(BEAT_S):
            if time.monotonic() - self._beat_at > BEAT_S + STALL_S / 2 and len(self._seen) < 5:
                frame = sys._current_frames().get(self._watched)  # noqa: SLF001  (there is no other way)
                if frame is not None:
                    self._seen.append("".join(traceback.format_stack(frame)[-8:]))
