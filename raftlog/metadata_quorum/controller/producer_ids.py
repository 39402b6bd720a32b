"""Producer ids: given to brokers in blocks, each id once in the cluster's life."""

from __future__ import annotations

from raftlog.metadata_quorum.controller.brokers import require_current
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import AllocateProducerIds
from raftlog.wire.controller import ProducerIdBlock, ProducerIdBlockRequest

BLOCK = 1_000


def decide_producer_ids(image: MetadataImage, request: ProducerIdBlockRequest) -> Decision[ProducerIdBlock]:
    """Give a broker the next block."""
    require_current(image, request.broker_id, request.broker_epoch)
    first = image.next_producer_id
    return Decision((AllocateProducerIds(next_producer_id=first + BLOCK),), ProducerIdBlock(first=first, count=BLOCK))
