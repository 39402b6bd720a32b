"""Compares what the nodes of a cluster have applied of the metadata quorum's log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.image_codec import digest
from simulation.cluster.nodes import Node


def different_metadata(nodes: Iterable[Node]) -> str | None:
    """Return which nodes have applied the same entries and have different metadata."""
    known = dict[int, tuple[str, str]]()
    for node in nodes:
        for image in _images(node):
            found = digest(image)
            name, expected = known.setdefault(image.offset, (node.name, found))
            if found != expected:
                return f"{name} and {node.name} have different metadata at offset {image.offset} of the quorum's log"
    return None


def _images(node: Node) -> Iterator[MetadataImage]:
    if node.running and node.controller is not None:
        yield node.controller.controller.image
    if node.running and node.broker is not None:
        yield node.broker.listener.image
