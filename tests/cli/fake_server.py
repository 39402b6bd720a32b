"""A stand-in for `raftlog server start`: listens where its node.toml says and answers /readyz. Misbehaves on request.

Not a test: LocalCluster's tests run it as a command.
"""

from __future__ import annotations

import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from raftlog.cli.processes import die_with_parent
from raftlog.config import NodeConfig


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    arguments = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    if "--parent-pid" in arguments:
        die_with_parent(int(arguments["--parent-pid"]))
    config = NodeConfig.load(Path(arguments["--config"]))
    if config.rack == "fails":
        print("cannot go on: the disk is on fire", flush=True)
        sys.exit(3)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if config.rack == "deaf" else lambda *_: sys.exit(0))
    if config.rack == "never-ready":
        print("still thinking", flush=True)
        signal.pause()
    host, port, _ = config.listeners.public or config.internal
    ThreadingHTTPServer.allow_reuse_address = True
    print(f"listening on {port}", flush=True)
    ThreadingHTTPServer((host, port), Handler).serve_forever()


if __name__ == "__main__":
    main()
