"""The client without async: the same three classes, for scripts and notebooks.

Each object runs an event loop in a thread of its own, and its methods wait for that thread. So it may be used from any
thread, also where another event loop runs. Close it, or use it as a context manager.
"""

from raftlog.blocking.admin import Admin
from raftlog.blocking.consumer import Consumer
from raftlog.blocking.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
