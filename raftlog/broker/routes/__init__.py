"""HTTP handlers: decode, authorize, locate, act, encode. No protocol decisions."""
