"""Authentication of requests, and the access rules for their senders."""
