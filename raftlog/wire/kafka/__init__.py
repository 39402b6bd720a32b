"""Kafka's protocol on the wire: frames, headers, messages, error codes. No IO.

`framing` finds the frames of a connection and their headers. `api_keys` is the table of APIs and versions; it loads a
module of `messages/` at the first use of its API. `codec` decodes and encodes one message, with `reader` and `writer`,
which read and write its fields (`primitives`). `scripts/generate_kafka_messages.py` generates `messages/`.

Source: Kafka's protocol guide; KIP-482 (flexible versions), KIP-511 (ApiVersions), KIP-893 (nullable structs).
"""
