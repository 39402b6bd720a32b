"""Reads of whole topics by URL: the query, the source of the records, and the response stream."""
