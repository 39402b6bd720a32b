"""The lean path: a minimal HTTP/1.1 server for raw batches, without aiohttp (docs/adr/0012)."""
