"""The record batch: a 64-byte header and an Arrow payload. No IO."""
