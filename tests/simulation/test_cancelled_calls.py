"""An application is cancelled anywhere: nothing is lost or repeated, its clients go on, and it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from alone import alone
from cancelled_calls import CALLS, play


@pytest.mark.parametrize("again_after", [0, 2])
@pytest.mark.parametrize("number", range(len(CALLS)), ids=[call.__name__ for call in CALLS])
def test_a_call_that_is_cancelled_at_each_of_its_waits(number: int, again_after: int, tmp_path: Path):
    """Once; or again after two further waits, by an impatient application."""
    alone(play, number, again_after, tmp_path)
