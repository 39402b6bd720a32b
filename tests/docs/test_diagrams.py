"""Diagrams of states name the states that the code has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

from raftlog.coordinator.group.state import Current
from raftlog.coordinator.transaction.records import Phase
from raftlog.metadata_quorum.raft.rejoin import Standing

EXPLANATION = Path(__file__).parents[2] / "docs" / "explanation"


def states(page: str) -> set[str]:
    """Return the names in the page's state diagram."""
    text = (EXPLANATION / page).read_text("utf-8")
    (diagram,) = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", text, re.DOTALL)
    return {
        name
        for line in diagram.splitlines()
        for name in re.findall(r"(\w+)(?= -->)|(?<=--> )(\w+)", line)
        for name in name
        if name
    }


def test_a_transaction_has_the_coordinators_phases():
    assert states("transactions.md") == set(get_args(Phase))


def test_a_member_has_the_reconciliations_states():
    assert states("consumer-groups.md") == set(get_args(get_type_hints(Current)["state"]))


def test_a_controller_has_the_standings_of_a_voter():
    assert {standing.value.replace(" ", "_") for standing in Standing} <= states("quorum.md")
