"""The transaction coordinator: which transaction of each transactional id is under way, and how it ends (KIP-98, 890)."""
