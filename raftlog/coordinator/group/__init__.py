"""The group coordinator (KIP-848): members, assignments and committed offsets of consumer groups."""
