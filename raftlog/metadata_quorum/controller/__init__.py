"""Controller decisions (`decide`), one module per concern. No IO."""
