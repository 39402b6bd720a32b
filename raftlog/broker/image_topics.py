"""The topics of the metadata image for group decisions, and the topics that members' patterns match.

Matching 10,000 names takes 50 ms. So the topics of a pattern are found in slices before a decision needs them, and are
kept up to date by looking only at the names that came or went since.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from raftlog.coordinator.group.patterns import compiled
from raftlog.coordinator.group.records import TopicMetadata
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.metadata_quorum.records import GROUPS_OF_BOTH_PROTOCOLS
from raftlog.model import INTERNAL_TOPICS
from raftlog.runtime import in_slices

MAX_PATTERNS = 1_000
"""Patterns whose topics are kept."""
MAX_NAMES = 2_000_000
"""Names that are kept in all, of all patterns: 16 MB."""
MAX_CHANGES = 1_000
"""Names that came or went, of which a pattern's topics may be unaware: 5 ms for each pattern."""
EACH = 512
"""Names that are matched in one turn of the event loop: 3 ms."""


@dataclass(slots=True)
class _Match:
    """The topics of one pattern."""

    names: tuple[str, ...]
    seen: int
    """How many changes are included."""


class PatternTopics:
    """The topics of patterns, of the newest image. The least recently used patterns are forgotten."""

    def __init__(self) -> None:
        self._names: Mapping[str, str] = {}
        self._changed: list[str] = []
        """The newest names that came or went."""
        self._changes = 0
        """How many did so, ever."""
        self._found: OrderedDict[str, _Match] = OrderedDict()
        self._kept = 0
        self._searching = asyncio.Lock()
        """One search at a time: all members of a group ask for its patterns together when its coordinator changes."""

    def update(self, names: Mapping[str, str]) -> None:
        """Apply the names of a newer image."""
        if names is self._names:
            return
        changed = (names.keys() ^ self._names.keys()) - INTERNAL_TOPICS
        self._names = names
        self._changes += len(changed)
        self._changed = [*self._changed, *sorted(changed)][-MAX_CHANGES:]

    def is_known(self, pattern: str) -> bool:
        """Return whether `of` has little to match."""
        found = self._found.get(pattern)
        return found is not None and found.seen + len(self._changed) >= self._changes

    def of(self, pattern: str) -> tuple[str, ...]:
        """Return the topics whose names match a valid pattern."""
        found = self._found.get(pattern)
        if found is not None and found.seen == self._changes:
            self._found.move_to_end(pattern)
            return found.names
        fits = compiled(pattern).matches
        if found is None or not self.is_known(pattern):
            return self._remember(pattern, tuple(filter(fits, self._ordinary())))
        changed = dict.fromkeys(self._changed[found.seen - self._changes :])
        stay = [name for name in found.names if name not in changed]
        return self._remember(pattern, (*stay, *(name for name in changed if name in self._names and fits(name))))

    async def find(self, pattern: str) -> None:
        """Find the topics of a pattern in slices, so that `of` has little to match.

        Raises:
            InvalidRequestError: it is no pattern.
        """
        fits = compiled(pattern).matches
        if self.is_known(pattern):
            return
        async with self._searching:
            while not self.is_known(pattern):
                seen = self._changes
                names = tuple([name async for name in in_slices(self._ordinary(), EACH) if fits(name)])
                self._remember(pattern, names, seen)

    def _ordinary(self) -> Iterator[str]:
        return (name for name in self._names if name not in INTERNAL_TOPICS)

    def _remember(self, pattern: str, names: tuple[str, ...], seen: int | None = None) -> tuple[str, ...]:
        self._forget(pattern)
        self._found[pattern] = _Match(names, self._changes if seen is None else seen)
        self._kept += len(names)
        while len(self._found) > 1 and (len(self._found) > MAX_PATTERNS or self._kept > MAX_NAMES):
            self._forget(next(iter(self._found)))
        return names

    def _forget(self, pattern: str) -> None:
        if (found := self._found.pop(pattern, None)) is not None:
            self._kept -= len(found.names)


class ImageTopics:
    """The topics of a metadata image that groups may subscribe to: no internal topics. Implements `Topics`."""

    def __init__(self, image: MetadataImage, patterns: PatternTopics | None = None, version: int = 0) -> None:
        self._image = image
        self.version = version
        self.patterns = PatternTopics() if patterns is None else patterns
        self.patterns.update(image.names)

    def of(self, image: MetadataImage) -> ImageTopics:
        """Return the topics of the next image, which take the place of these.

        The version stays if no topic came or went and none has more partitions: groups need not look at their topics
        again for each change of a leader or an ISR.
        """
        if image is self._image:
            return self
        is_same = image.names == self._image.names and _have_equal_sizes(self._image.topics, image.topics)
        return ImageTopics(image, self.patterns, self.version + (not is_same))

    @property
    def have_both_protocols(self) -> bool:
        return self._image.feature_level >= GROUPS_OF_BOTH_PROTOCOLS

    def get(self, topic: str) -> TopicMetadata | None:
        found = None if topic in INTERNAL_TOPICS else self._image.topic(topic)
        return None if found is None else TopicMetadata(topic_id=found.topic_id, partitions=len(found.partitions))

    def matching(self, pattern: str) -> Iterable[str]:
        return self.patterns.of(pattern)


def _have_equal_sizes(before: Mapping[str, TopicImage], now: Mapping[str, TopicImage]) -> bool:
    """Return whether all topics have as many partitions as before; most are the same objects."""
    if before is now:
        return True
    return all(
        (old := before.get(topic_id)) is topic or (old is not None and len(old.partitions) == len(topic.partitions))
        for topic_id, topic in now.items()
    )
