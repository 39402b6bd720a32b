"""The group coordinator (KIP-848): who is a member, who reads which partition, and how far each group has read."""
