"""The replication rules, each broken once, as an edit could break it by mistake: `make mutants` finds each."""

from __future__ import annotations

import answering_mutants as _answering
import blocking_mutants as _blocking
import client_mutants as _client
import closing_mutants as _closing
import coordinator_mutants as _coordinator
import deciding_mutants as _deciding
import deleted_mutants as _deleted
import doubt_mutants as _doubt
import failed_disk_mutants as _failed_disk
import going_on_mutants as _going_on
import held_mutants as _held
import isr_mutants as _isr
import keeping_mutants as _keeping
import lease_mutants as _lease
import log_mutants as _log
import operating_mutants as _operating
import reading_mutants as _reading
import repair_mutants as _repair
import room_mutants as _room
import serving_mutants as _serving
import spark_mutants as _spark
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
    _blocking,
    _repair,
    _coordinator,
    _deciding,
    _deleted,
    _keeping,
    _reading,
    _serving,
    _unclean,
    _workload,
    _held,
    _operating,
    _room,
    _doubt,
    _spark,
    _answering,
    _going_on,
    _closing,
    _failed_disk,
    _lease,
)
"""Each adds its own to `MUTANTS`."""
