"""Start a cluster with load and a real Prometheus; check rules, alerts and every query of the dashboards.

    python scripts/dashboards.py FOLDER_OF_PROMETHEUS [--keep]

It prints the queries that return nothing. `--keep`: Prometheus and the cluster run until Ctrl-C.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from raftlog import blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import RaftlogError
from raftlog.metrics.alerts import ALERTS
from raftlog.metrics.generated import DETAILED, TITLES, dashboard, rules

LOAD_S = 40.0
READY_S = 30.0


def main() -> None:
    """Run the cluster, the load and Prometheus; exit with 1 if a rule or query is wrong."""
    tools, keep = Path(sys.argv[1]), "--keep" in sys.argv
    with tempfile.TemporaryDirectory() as folder, LocalCluster(Path(folder) / "cluster", port=0) as cluster:
        url, prometheus = start_prometheus(tools, Path(folder), cluster)
        ended = threading.Event()
        loading = threading.Thread(target=load, args=(cluster.bootstrap, ended), daemon=True)
        loading.start()
        try:
            print(f"Prometheus: {url} (import deploy/grafana/*.json into a Grafana that uses it)")
            time.sleep(LOAD_S)
            wrong = check(url)
            while keep:
                signal.pause()
        except KeyboardInterrupt:
            wrong = []
        finally:
            ended.set()
            prometheus.terminate()
            prometheus.wait()
            loading.join()
    sys.exit("\n".join(wrong) if wrong else 0)


def start_prometheus(tools: Path, folder: Path, cluster: LocalCluster) -> tuple[str, subprocess.Popen[bytes]]:
    """Return the URL and the process of a Prometheus that scrapes every node each second."""
    (folder / "rules.yml").write_text(rules())
    brokers = [cluster.public_url(name).removeprefix("http://") for name in cluster.brokers]
    controllers = [str(cluster.node(name).internal) for name in cluster.controllers]
    jobs = [
        {"job_name": "raftlog", "static_configs": [{"targets": [*brokers, *controllers]}]},
        {
            "job_name": "raftlog-partitions",
            "params": {"detail": ["partitions"]},
            "metric_relabel_configs": [{"source_labels": ["__name__"], "regex": DETAILED, "action": "keep"}],
            "static_configs": [{"targets": brokers}],
        },
    ]
    config = {"global": {"scrape_interval": "2s"}, "rule_files": ["rules.yml"], "scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML.
    subprocess.run([tools / "promtool", "check", "config", folder / "prometheus.yml"], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [tools / "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--web.listen-address={address}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*command, f"--storage.tsdb.path={folder / 'tsdb'}"], stdout=log, stderr=log)
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(f"http://{address}/-/ready").close()
            return f"http://{address}", process
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    process.kill()
    raise SystemExit(f"Prometheus is not ready after {READY_S:.0f} s:\n{(folder / 'prometheus.log').read_text()}")


def load(bootstrap: str, ended: threading.Event) -> None:
    """Produce, also in transactions, and consume in a group, until `ended`."""
    with blocking.Admin(bootstrap) as admin:
        admin.create_topic("load", partitions=6, replication_factor=3)
    with (
        blocking.Producer(bootstrap) as producer,
        blocking.Producer(bootstrap, transactional_id="dashboards") as transactional,
        blocking.Consumer(bootstrap, "load", group_id="dashboards", auto_offset_reset="earliest") as consumer,
    ):
        while not ended.is_set():
            try:
                for number in range(200):
                    producer.send_nowait("load", b"%d" % number, key=b"%d" % number)
                with transactional.transaction():
                    transactional.send_nowait("load", b"in a transaction")
                consumer.fetch(max_wait_ms=200)
            except RaftlogError as error:
                print(f"load: {error}")


def check(url: str) -> list[str]:
    """Evaluate every alert and every query of the boards; return the errors, and print the empty queries."""
    wrong, empty, count = list[str](), list[str](), 0
    for alert in ALERTS:
        evaluate(url, alert.expression, wrong)
    for board in TITLES:
        for panel in json.loads(dashboard(board))["panels"]:
            for target in panel["targets"]:
                count += 1
                query = target["expr"].replace("$__rate_interval", "20s").replace("$instance", ".*")
                if not evaluate(url, query, wrong):
                    empty.append(f"  {board}, {panel['title']}: {query}")
    firing = [found["labels"]["alertname"] for found in ask(url, "/api/v1/alerts")["data"]["alerts"]]
    print(f"{len(ALERTS)} alerts and {count} queries evaluated; firing or pending: {firing or 'none'}")
    print(f"{len(empty)} queries return nothing:", *empty, sep="\n")
    return wrong


def evaluate(url: str, query: str, wrong: list[str]) -> list[Any]:
    """Return a query's result; add its error to `wrong`."""
    try:
        return list(ask(url, "/api/v1/query?" + urllib.parse.urlencode({"query": query}))["data"]["result"])
    except urllib.error.HTTPError as error:
        wrong.append(f"{query}: {error.read().decode()}")
        return []


def ask(url: str, path: str) -> Any:
    """Return the JSON answer of Prometheus' API."""
    with urllib.request.urlopen(url + path) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
