"""Producer ids, allocated to brokers in blocks. Each id is allocated once in the cluster's life."""

from __future__ import annotations

from collections.abc import Callable

from raftlog.metadata_quorum.controller.brokers import require_current
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import KEYED_PRODUCER_IDS, AllocateProducerIds
from raftlog.wire.controller import ProducerIdBlock, ProducerIdBlockRequest

BLOCK = 1_000


def decide_producer_ids(
    image: MetadataImage, request: ProducerIdBlockRequest, *, draw_key: Callable[[], str]
) -> Decision[ProducerIdBlock]:
    """Allocate the next block to a broker; draw the key with the first block at feature level `KEYED_PRODUCER_IDS`."""
    require_current(image, request.broker_id, request.broker_epoch)
    first = image.next_producer_id
    drawn = draw_key() if not image.producer_id_key and image.feature_level >= KEYED_PRODUCER_IDS else ""
    block = ProducerIdBlock(first=first, count=BLOCK, key=image.producer_id_key or drawn)
    return Decision((AllocateProducerIds(next_producer_id=first + BLOCK, key=drawn),), block)
