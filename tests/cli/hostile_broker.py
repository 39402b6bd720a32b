"""A server that calls itself a broker, and means no good. Not a test."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

EVIL = "\x1b]0;owned\x07\x1b[2J\u202e" + "A" * 5_000


class Hostile(BaseHTTPRequestHandler):
    """A server that calls itself a broker."""

    protocol_version = "HTTP/1.1"
    endless = False

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        host, port = self.server.server_address[:2]
        if path == "/v1/cluster":
            brokers = [
                {"broker_id": number, "url": f"http://{host!s}:{port}", "version": EVIL, "fenced": True}
                for number in range(300)
            ]
            brokers += [{"broker_id": 301, "url": EVIL}, {"broker_id": 302, "url": "http://\udcff:1"[:7] + "x\x00:1"}]
            self.answer({"cluster_id": EVIL, "controller": {"url": EVIL}, "brokers": brokers})
        elif path == "/v1/metadata":
            partition = {
                "partition": 0,
                "leader": -1,
                "leader_epoch": 1,
                "replicas": list(range(900, 1_900)),
                "isr": [],
            }
            topics = [{"topic": EVIL, "topic_id": "", "partitions": [partition] * 50}]
            self.answer({"cluster_id": "", "metadata_offset": 1, "brokers": [], "topics": topics})
        elif path == "/metrics" and self.endless:
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b"a 1\n" * 100_000)
        elif path == "/livez":
            self.answer({})
        else:
            self.answer({"error": {"code": "X", "message": EVIL}}, 500)

    def answer(self, document: Any, status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Date", "Fri, 15 Jan 99999 08:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
