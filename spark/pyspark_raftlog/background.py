"""One background event loop per process, with its connections, for Spark's blocking worker code.

Spark reuses worker processes and pickles readers: connections therefore live in a module global, never in what Spark
pickles. Threads do not survive a fork, so the global is kept by process id.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.options import ConnectionOptions
from raftlog.client.options import client_id_of
from raftlog.transport.session import HttpSession
from raftlog.transport.session_credentials import SessionCredentials

T = TypeVar("T")


class BackgroundLoop:
    """An event loop in a daemon thread, with the clusters whose sessions live on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="raftlog-spark", daemon=True)
        self._thread.start()
        self._clusters: dict[object, Cluster] = {}
        self._sessions: list[HttpSession] = []

    def spawn(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the loop; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and wait for it; it is cancelled when the caller is interrupted."""
        future = self.spawn(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def cluster(self, options: ConnectionOptions) -> Cluster:
        """Return the cluster of `options`, with its existing connections.

        Raises:
            ConfigError: a file for TLS or credentials is missing or cannot be used.
        """
        security, authorization = options.credentials.resolve()
        dial = tuple(sorted(options.dial.items()))
        key = (options.bootstrap, dial, options.timeout_ms, options.client_id, security, authorization)
        if key not in self._clusters:
            session = HttpSession(
                dial=options.dial,
                tls=security.tls_context(),
                credentials=SessionCredentials(authorization=authorization, tokens=security.token_source()),
                client_id=client_id_of(options.client_id),
            )
            self._sessions.append(session)
            self._clusters[key] = Cluster(options.bootstrap, session, timeout_ms=options.timeout_ms)
        return self._clusters[key]

    def close(self) -> None:
        """Close every connection and stop the thread."""
        for session in self._sessions:
            self.run(session.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


_loops: dict[int, BackgroundLoop] = {}
_lock = threading.Lock()


def background() -> BackgroundLoop:
    """Return this process's loop."""
    with _lock:
        if os.getpid() not in _loops:
            _loops[os.getpid()] = BackgroundLoop()
            _spare_spark_collections()
        return _loops[os.getpid()]


def _spare_spark_collections() -> None:
    """Exclude the imported modules from the garbage collection that Spark's daemon runs after each task.

    It scans every object of the process for 20 ms, and frees almost nothing.
    """
    program = getattr(sys.modules.get("__main__"), "__spec__", None)
    if program is not None and program.name == "pyspark.daemon":
        gc.collect()
        gc.freeze()


@atexit.register
def close_background() -> None:
    """Close this process's connections; the next use opens new ones."""
    with _lock:
        loop = _loops.pop(os.getpid(), None)
    if loop is not None:
        loop.close()
