"""Runs a node in which the rule that MUTANT names is broken: what `mutants.py` has a scenario start as its nodes."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "simulation"))
from cluster_mutants import MUTANTS, Patches

from raftlog.cli.main import cli

MUTANTS[os.environ["MUTANT"]](Patches())
cli(prog_name="raftlog")
