"""The transaction coordinator: what is under way under each transactional id, and how it ends (KIP-98, KIP-890)."""
