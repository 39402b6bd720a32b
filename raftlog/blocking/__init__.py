"""The client without async: the same three classes, for scripts and notebooks.

Each object runs an event loop in a thread of its own, and its methods wait for that thread. So it may be used from any
thread, also where another event loop runs. Close it, or use it as a context manager.

A consumer's rebalance callbacks run in another thread, and may call the consumer. A partitioner, and callbacks of the
futures that are returned, run in the object's own thread: they must not call its methods, which would wait for
themselves, and raise RuntimeError there.
"""

from raftlog.blocking.admin import Admin
from raftlog.blocking.consumer import Consumer
from raftlog.blocking.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
