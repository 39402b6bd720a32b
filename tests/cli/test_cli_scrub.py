"""`raftlog storage scrub`: damage that nobody has read is found now, and repaired by the time the command ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raftlog import blocking
from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.usefixtures("raftlog")
