"""The README's examples do what they say: every `sh` and `python` block runs against a real cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("readme"), port=0) as running:
        yield running


def run(cluster: LocalCluster, language: str, text: str) -> str:
    url = cluster.public_url("broker-1")
    environment = {
        **os.environ,
        "RAFTLOG_BOOTSTRAP": url,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
    text = text.replace("http://127.0.0.1:9400", url)
    done = subprocess.run([*command, text], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_example_of_the_readme_runs_in_order(cluster: LocalCluster):
    blocks = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    outputs = [run(cluster, language, text) for language, text in blocks]

    assert [language for language, _ in blocks] == ["sh", "sh", "python", "python"]
    command_line, curl, pandas, client = outputs
    assert "hello\n" in command_line
    assert '"offsets":[{"partition":0,"offset":0},{"partition":0,"offset":1}]' in curl
    assert '"value":"hello"' in curl
    assert '"status":"ready"' in curl
    assert "b'hello'" in pandas
    assert "b'from Python'" in client


def test_links_of_the_documents_lead_somewhere():
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    broken = [
        f"{document.name}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
        if "://" not in target and not (document.parent / target).exists()
    ]

    assert broken == []
