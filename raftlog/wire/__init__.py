"""What travels over HTTP: paths, media types, request and response types, and their codec. No IO."""
