"""The examples of the README, and of reading a topic, do what they say: each block runs against a real cluster."""

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
LEAVE = "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)\n"
"""Added to examples that read Parquet with pandas. With pyarrow 26, 1 of 40 processes that do just that aborts when
it ends, whatever server it read from: "terminate called without an active exception"."""
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
    text = text.replace("http://127.0.0.1:9400", url) + (LEAVE if "pd.read_parquet" in text else "")
    done = subprocess.run([*command, text], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_example_of_the_readme_runs_in_order(cluster: LocalCluster):
    page = (ROOT / "README.md").read_text("utf-8").partition("## Secure it")[0]
    blocks = BLOCK.findall(page)
    outputs = [run(cluster, language, text) for language, text in blocks]

    assert [language for language, _ in blocks] == ["sh", "sh", "python", "python"]
    command_line, curl, pandas, client = outputs
    assert "hello\n" in command_line
    assert '"offsets":[{"partition":0,"offset":0},{"partition":0,"offset":1}]' in curl
    assert '"value":"hello"' in curl
    assert "b'hello'" in pandas
    assert "b'from Python'" in client


def test_every_example_of_reading_a_topic_runs_in_order(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    topic = "notes_of_readers"
    blocks = BLOCK.findall((ROOT / "docs" / "how-to" / "read-a-topic.md").read_text("utf-8"))
    _, one_call, files, curl, pandas, arrow, polars, duckdb = (
        run(cluster, language, re.sub(r"\bnotes\b", topic, text)) for language, text in blocks
    )

    assert one_call.startswith('3 [b\'{"n": 1, ')
    assert files.endswith("[(3,)]\n")
    assert curl.startswith("1\n2\n3\n")
    assert curl.endswith('{"n": 1, "who": "ann"}\n{"n": 2, "who": "bob"}\n{"n": 3, "who": "cyd"}\n')
    assert pandas == "3 3 3\n"
    assert arrow.startswith("3 ['topic', 'partition', 'offset', 'timestamp', 'key', 'value', 'headers']")
    assert all(name in polars for name in ("ann", "bob", "cyd"))
    assert duckdb == "[(6,)]\n[(3,)]\n"


def test_links_of_the_documents_lead_somewhere():
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    broken = [
        f"{document.name}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
        if "://" not in target and not (document.parent / target).exists()
    ]

    assert broken == []
