"""A voter that has lost its journal does not vote in the newest known term: it may have voted before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pysyncobj.syncobj as core_module
import pytest
from stage_support import OurVoter, Stage


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    built = Stage(OurVoter, tmp_path, "ABC")
    monkeypatch.setattr(core_module, "monotonicTime", lambda: built.now)
    built.open()
    yield built
    built.close()


def answers(stage: Stage, term: int) -> list[str]:
    """Ask B for its vote in a term, as C would, and return what it answers."""
    index, last = stage.log("C")[-1]
    ask = {"type": "request_vote", "term": term, "last_log_index": index, "last_log_term": last}
    voter = stage.voters["B"]
    candidate = next(node for node in voter.voters() if node.id == "C")
    stage.links["B", "C"].clear()
    voter._guard.receive(candidate, ask)
    return [message["type"] for message in stage.waiting("B", "C")]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_forfeited_vote_is_given_to_nobody_not_even_after_a_restart(stage: Stage, restarts: bool):
    stage.elect("A")
    term = stage.voters["A"].term
    assert "response_vote" in answers(stage, term + 1)  # It can vote, and does.

    stage.voters["B"].forfeit_vote(term + 3)
    stage.voters["B"].sync()
    if restarts:
        stage.kill("B")
        stage.start("B")
    assert stage.voters["B"].term == term + 3
    assert answers(stage, term + 3) == []
    assert "response_vote" in answers(stage, term + 4)
