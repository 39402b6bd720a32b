"""Runs a node in which the rule of MUTANT is broken: `chaos_mutants.py` has scenarios start it as a node."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "simulation"))
from cluster_mutants import MUTANTS, Patches
from security_mutants import SECURITY_MUTANTS

from raftlog.cli.main import cli

(MUTANTS | SECURITY_MUTANTS)[os.environ["MUTANT"]](Patches())
cli(prog_name="raftlog")
