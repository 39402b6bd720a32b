"""`raftlog server start`, with the small Kafka listener of the tests beside: `KAFKA_PORTS` is JSON by node id."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from raftlog.broker import node

node.keep_pyarrow_small()  # Before pyarrow is imported here.

from kafka_frame import Frame  # noqa: E402

from raftlog.broker import broker_node  # noqa: E402
from raftlog.entry import main  # noqa: E402


class KafkaBrokerNode(broker_node.BrokerNode):
    """A broker with a Kafka port."""

    async def start(self, **options: Any) -> None:
        await super().start(**options)
        ports = {int(number): port for number, port in json.loads(os.environ["KAFKA_PORTS"]).items()}
        self.frame = Frame(self.context, ports)
        self.kafka = await self.frame.listen(ports[self.context.config.node_id])


broker_node.BrokerNode = KafkaBrokerNode  # type: ignore[misc]
sys.argv[1:1] = ["server", "start"]
sys.exit(main())
