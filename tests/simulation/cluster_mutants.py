"""The replication rules, each broken once, as an edit could break it by mistake: `make mutants` finds each."""

from __future__ import annotations

import client_mutants as _client
import coordinator_mutants as _coordinator
import deciding_mutants as _deciding
import held_mutants as _held
import isr_mutants as _isr
import keeping_mutants as _keeping
import log_mutants as _log
import operating_mutants as _operating
import reading_mutants as _reading
import repair_mutants as _repair
import serving_mutants as _serving
import storage_mutants as _storage
import tick_mutants as _ticks
import unclean_mutants as _unclean
import workload_mutants as _workload
from mutating import MUTANTS, TOLD_BY, Patches, broken_by

__all__ = ["MUTANTS", "TOLD_BY", "Patches", "broken_by"]
PARTS = (
    _isr,
    _log,
    _storage,
    _ticks,
    _client,
    _repair,
    _coordinator,
    _deciding,
    _keeping,
    _reading,
    _serving,
    _unclean,
    _workload,
    _held,
    _operating,
)
"""Each adds its own to `MUTANTS`."""
