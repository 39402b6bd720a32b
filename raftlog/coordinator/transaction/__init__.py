"""The transaction coordinator: the transactions of each transactional id, and their ends (KIP-98, KIP-890)."""
