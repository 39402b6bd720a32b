"""Stamps when chosen functions, callbacks and waits for events begin and end, in the process that it runs in.

`start` replaces the functions of `TARGETS`, the selector's wait and the loop's way to run a callback; `stop` puts the
originals back. Before and after, nothing of it is in the process's way.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import selectors
import socket
import sys
import time
import types
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Any

import orjson

from benchmarks.timeline.targets import LOOP, POLL, STEP, SYSTEM, TARGETS, WAIT, Target

Stamp = tuple[str, int, int, int, int, int]
"""Label, begin and end (`time.monotonic_ns`, the same clock in all processes), thread, the descriptor of a connection
(0: none), and the CPU time in ns (-1: not read, as reading it is a system call)."""
_CALIBRATION = 2_000


class Tracer:
    """Times one process, from `start` to `stop`."""

    def __init__(self) -> None:
        self.stamps: list[Stamp] = []
        self._undo: list[Callable[[], None]] = []
        self._turn_began = 0
        """When the current turn of the loop began; 0: before the first one."""

    def start(self) -> None:
        """Begin to time."""
        for target in TARGETS:
            self._replace(target)
        self._patch(asyncio.events.Handle, "_run", self._timed_callback(asyncio.events.Handle._run))  # noqa: SLF001
        self._patch(selectors.EpollSelector, "select", self._timed_wait(selectors.EpollSelector.select))

    def stop(self) -> None:
        """Put the originals back."""
        while self._undo:
            self._undo.pop()()

    def write(self, path: Path) -> None:
        """Write all stamps, the ports of each connection, and what a stamp costs outside of itself."""
        used = {stamp[4] for stamp in self.stamps} - {0}
        ports = {str(descriptor): found for descriptor in used if (found := _ports(descriptor)) is not None}
        content = {"stamps": self.stamps, "ports": ports, "cost_ns": _costs_ns()}
        unfinished = path.with_suffix(".new")
        unfinished.write_bytes(orjson.dumps(content))
        unfinished.replace(path)

    def _replace(self, target: Target) -> None:
        module_name, _, name = target.place.partition(":")
        module = sys.modules.get(module_name)
        if module is None:
            return  # A controller has no log, a node no producer.
        owner: Any = module
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        original = inspect.getattr_static(owner, last)
        timed = self._timed(target, original)
        if path or not module_name.startswith("raftlog."):
            self._patch(owner, last, timed)
            return
        for user in [module for name, module in sys.modules.items() if name.startswith("raftlog.")]:
            for used_as in [used_as for used_as, value in vars(user).items() if value is original]:
                self._patch(user, used_as, timed)

    def _patch(self, owner: Any, name: str, instead: Callable[..., Any]) -> None:
        if name in vars(owner):
            self._undo.append(functools.partial(setattr, owner, name, vars(owner)[name]))
        else:
            self._undo.append(functools.partial(delattr, owner, name))
        setattr(owner, name, instead)

    def _timed(self, target: Target, original: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(original):
            return self._timed_async(target.label, original)
        if target.kind == SYSTEM:
            return self._timed_system_call(target.label, original)
        label, take, now = target.label, self.stamps.append, time.monotonic_ns

        @functools.wraps(original)
        def timed(*arguments: Any, **named: Any) -> Any:
            began = now()
            try:
                return original(*arguments, **named)
            finally:
                take((label, began, now(), get_ident(), 0, -1))

        return timed

    def _timed_system_call(self, label: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Time a system call by the CPU as well: what it wakes may run before it returns."""
        take, now, cpu = self.stamps.append, time.monotonic_ns, time.thread_time_ns

        @functools.wraps(original)
        def timed(*arguments: Any, **named: Any) -> Any:
            began, cpu_began = now(), cpu()
            try:
                return original(*arguments, **named)
            finally:
                cpu_ended, ended, first = cpu(), now(), arguments[0]
                descriptor = first if isinstance(first, int) else first.fileno()
                take((label, began, ended, get_ident(), descriptor, cpu_ended - cpu_began))

        return timed

    def _timed_async(self, label: str, original: Callable[..., Any]) -> Callable[..., Any]:
        take, now = self.stamps.append, time.monotonic_ns

        @functools.wraps(original)
        @types.coroutine
        def timed(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
            work = original(*arguments, **named)
            resume: Callable[[], Any] = functools.partial(work.send, None)
            while True:
                began = now()
                try:
                    waits_for = resume()
                except StopIteration as ended:
                    return ended.value
                finally:
                    take((label, began, now(), get_ident(), 0, -1))
                try:
                    sent = yield waits_for
                except BaseException as error:  # noqa: BLE001  (the function sees it, cancellations included)
                    resume = functools.partial(work.throw, error)
                else:
                    resume = functools.partial(work.send, sent)

        return timed

    def _timed_callback(self, original: Callable[..., Any]) -> Callable[[asyncio.Handle], None]:
        take, now = self.stamps.append, time.monotonic_ns

        def timed(handle: asyncio.Handle) -> None:
            callback = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001
            began = now()
            original(handle)
            take((_name(callback), began, now(), get_ident(), 0, -1))

        return timed

    def _timed_wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        take, now, cpu = self.stamps.append, time.monotonic_ns, time.thread_time_ns

        def timed(selector: selectors.EpollSelector, timeout: float | None = None) -> Any:
            began, turn = now(), self._turn_began
            if turn:
                take((LOOP, turn, began, get_ident(), 0, -1))
            began, cpu_began = now(), cpu()
            try:
                return original(selector, timeout)
            finally:
                cpu_ended, ended = cpu(), now()
                label = POLL if timeout is not None and timeout <= 0 else WAIT
                take((label, began, ended, get_ident(), 0, cpu_ended - cpu_began))
                self._turn_began = now()

        return timed


def _name(callback: Any) -> str:
    """Return what a callback runs: for a task's step, its coroutine."""
    while isinstance(callback, functools.partial):
        callback = callback.func
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return f"step of {getattr(task.get_coro(), '__qualname__', '?')}"
    return str(getattr(callback, "__qualname__", "?"))


def _ports(descriptor: int) -> tuple[int, int] | None:
    """Return the own port and the peer's port of a connection; None: it is closed, or not one of TCP."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        own, peer = connection.getsockname(), connection.getpeername()
        if isinstance(own, tuple) and isinstance(peer, tuple):
            return own[1], peer[1]
    return None


def _costs_ns() -> dict[str, int]:
    """Return what a stamp costs its caller beside the time that it stamps, by the kind of what is stamped."""
    tracer, loop = Tracer(), asyncio.new_event_loop()
    handle = asyncio.Handle(_costs_ns, (), loop)
    loop.close()
    return {
        "": _cost_ns(tracer, tracer._timed(Target("a:nothing", ""), lambda: None)),  # noqa: SLF001
        SYSTEM: _cost_ns(tracer, functools.partial(tracer._timed(Target("a:call", SYSTEM), lambda _: None), 0)),  # noqa: SLF001
        STEP: _cost_ns(tracer, functools.partial(tracer._timed_callback(lambda _: None), handle)),  # noqa: SLF001
    }


def _cost_ns(tracer: Tracer, timed: Callable[[], Any]) -> int:
    costs = []
    for _ in range(_CALIBRATION):
        began = time.monotonic_ns()
        timed()
        ended = time.monotonic_ns()
        stamp = tracer.stamps[-1]
        costs.append(ended - began - (stamp[2] - stamp[1]))
    return sorted(costs)[len(costs) // 2]
