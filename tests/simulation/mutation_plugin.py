"""A pytest plugin that breaks the rule which MUTANT names, for a whole run: see `mutants.py`."""

import os

from cluster_mutants import MUTANTS, Patches

MUTANTS[os.environ["MUTANT"]](Patches())
