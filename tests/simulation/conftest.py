"""What every simulated cluster leaves behind."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Iterator
from unittest import mock

import pytest


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nodes that die have much to say, and were in the middle of much: collect it here, not in the next test."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    with mock.patch.object(sys, "unraisablehook"):
        gc.collect()
