"""Several decisions in one commit: each is made on the image that the ones before it leave.

A commit costs a sync at a majority of the controllers. When topics are created in a burst, the requests that wait
meanwhile share the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.controller.elections import unclean_elections
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import Record
from raftlog.metadata_quorum.replay import replay

Decide: TypeAlias = Callable[[MetadataImage], Decision[Any]]
MAX_RECORDS = 2_000
"""No decision joins a group that has so many records: those that keep brokers in the cluster wait for the group."""


@dataclass(frozen=True, slots=True)
class Group:
    """Decisions that are committed together."""

    outcomes: tuple[Any, ...]
    """The responses of the first decisions, in order; the exception where one raised. The others were not made."""
    records: tuple[Record, ...]
    unclean: tuple[str, ...]
    """A message for each unclean election."""


def decide_together(image: MetadataImage, decisions: Sequence[Decide]) -> Group:
    """Make decisions one after another, without commits in between, until there are `MAX_RECORDS` records."""
    outcomes, records, unclean = list[Any](), list[Record](), list[str]()
    for decide in decisions:
        try:
            decision = decide(image)
        except Exception as error:  # noqa: BLE001  (its caller's answer, also if it is a bug: others are decided)
            outcomes.append(error)
            continue
        outcomes.append(decision.response)
        if decision.records:
            unclean += unclean_elections(image, decision.records)
            records += decision.records
            if len(records) >= MAX_RECORDS:
                break
            if len(outcomes) < len(decisions):
                image = replay(image, image.offset, decision.records)
    return Group(tuple(outcomes), tuple(records), tuple(unclean))
