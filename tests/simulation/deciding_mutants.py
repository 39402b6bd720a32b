"""The rules by which controllers, coordinators and partition leaders decide, each told by a test of its own."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.metadata_quorum.decision_writer import DecisionWriter
from raftlog.metadata_quorum.http import ControllerRoutes

CONTROLLER = "tests/metadata_quorum/test_active_controller.py"
CONTROLLER_HTTP = "tests/metadata_quorum/test_controller_http.py"

# The controller.


@mutant
@told_by(CONTROLLER_HTTP)
def a_controller_is_ready_before_it_knows_the_leaders_epoch(patch: Any) -> None:
    patch.edit(
        ControllerRoutes._describe,
        "controller.leader is not None and image.controller_id == controller.leader",
        "image.controller_id >= 0",
    )


@mutant
@told_by(CONTROLLER)
def an_elected_controller_decides_before_its_epoch_begins(patch: Any) -> None:
    """In the epoch of the one before it, whose commands may still come."""
    patch.edit(
        DecisionWriter.leadership_changed,
        "self._epoch = None",
        "self._epoch = self._image().controller_epoch if leader == self._node_id else None",
    )
