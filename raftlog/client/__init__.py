"""The async client: Producer, Consumer, Admin. Never imports server code."""
