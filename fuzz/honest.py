"""An honest client, in a process of its own: `python -m fuzz.honest BOOTSTRAP DIARY PARENT` runs until it is killed."""

from __future__ import annotations

import asyncio
import sys
import uuid
from contextlib import suppress
from pathlib import Path

from raftlog.cli.processes import die_with_parent
from raftlog.client import Admin, Consumer, Producer
from raftlog.errors import RaftlogError

SERVED = "served"
EXISTING = ("t", "fuzz")
"""Topics of hostile requests: see `requests.NAMES`."""
PATIENCE_S = 10.0
"""A record must be written and read within this time, during any other requests to the cluster."""
PAUSE_S = 0.2


async def main(bootstrap: str, diary: Path) -> None:
    """Write a line after each round: `SERVED`, or the error."""
    while True:
        with suppress(RaftlogError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await _provide(bootstrap)
        try:
            async with asyncio.timeout(PATIENCE_S):
                said = await _round(bootstrap)
        except TimeoutError:
            said = f"no record was written and read within {PATIENCE_S:.0f} s"
        except RaftlogError as error:
            said = f"{error.code}: {error.message}"
        with diary.open("a") as file:
            file.write(said.replace("\n", " ") + "\n")
        await asyncio.sleep(PAUSE_S)


async def _provide(bootstrap: str) -> None:
    """Let the topics that hostile requests name exist, and hold records. Requests may have deleted or altered them."""
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        for topic in EXISTING:
            await admin.create_topic(topic, partitions=2, replication_factor=1, if_not_exists=True)
            await producer.send(topic, b"value", key=b"key")


async def _round(bootstrap: str) -> str:
    """Write a record and read it, in a topic with an unguessable name."""
    topic = f"honest-{uuid.uuid4().hex}"
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topic(topic, partitions=1, replication_factor=1)
        await producer.send(topic, b"value")
        async with Consumer(bootstrap, topic, start="earliest") as consumer:
            record = await anext(consumer)
        await admin.delete_topic(topic)
    return SERVED if record.value == b"value" else f"read {record.value!r:.50}"


if __name__ == "__main__":
    die_with_parent(int(sys.argv[3]))
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
