"""Which cluster's metadata a client has seen, and how new it was. No IO, no clock."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from raftlog.errors import ConfigError, RetriableError
from raftlog.wire.metadata import ClientMetadata

_log = logging.getLogger(__name__)
OLDER_S = 60.0
"""After this time older metadata counts, if no broker has newer one: the controllers were restored from a backup."""


class MetadataHistory:
    """Refuses metadata that is older than what was seen, as from a partitioned broker, and that of other clusters."""

    def __init__(self) -> None:
        self._cluster_id = ""
        self._offset = -1
        self._older_since_s = float("inf")
        """Since when brokers have had older metadata only, in seconds."""

    def takes(self, metadata: ClientMetadata) -> bool:
        """Return whether metadata counts; it is remembered then."""
        if metadata.cluster_id != self._cluster_id != "" or metadata.metadata_offset < self._offset:
            return False
        self._remember(metadata)
        return True

    def best_of(self, refused: Sequence[ClientMetadata], now_s: float) -> ClientMetadata:
        """Return the newest of the refused metadata if it counts by now.

        Raises:
            ConfigError: all of it is of another cluster: this one was replaced.
            RetriableError: it is older than what was seen.
        """
        own = [metadata for metadata in refused if metadata.cluster_id == self._cluster_id]
        if not own:
            raise ConfigError(
                f"bootstrap: its brokers belong to cluster {refused[0].cluster_id} now, and belonged to cluster "
                f"{self._cluster_id} when this client began; make another client for the new cluster"
            )
        newest = max(own, key=lambda metadata: metadata.metadata_offset)
        self._older_since_s = min(self._older_since_s, now_s)
        why = f"brokers have metadata of offset {newest.metadata_offset} at most, offset {self._offset} was seen before"
        if now_s - self._older_since_s < OLDER_S:
            raise RetriableError(f"all {why}")
        _log.warning("for %g s %s: the controllers' log seems to have been restored, so it counts now", OLDER_S, why)
        self._remember(newest)
        return newest

    def _remember(self, metadata: ClientMetadata) -> None:
        self._cluster_id, self._offset = metadata.cluster_id, metadata.metadata_offset
        self._older_since_s = float("inf")
