"""The content of a topic, for tests of writes to it."""

from __future__ import annotations

import json
import time
from typing import Any

from raftlog.blocking import Consumer

Row = dict[str, Any]


def read_topic(bootstrap: str, topic: str, *, at_least: int) -> list[Row]:
    """Read committed records, once there are so many: a transaction's records are visible soon after its answer."""
    rows: list[Row] = []
    deadline = time.monotonic() + 60
    with Consumer(bootstrap, topic, start="earliest", isolation="read_committed") as consumer:
        while len(rows) < at_least or any(consumer.position(*key) < end for key, end in consumer.end_offsets().items()):
            assert time.monotonic() < deadline, f"{topic}: {len(rows)} rows"
            rows += [json.loads(record.value) for record in consumer.fetch()]
    return rows
