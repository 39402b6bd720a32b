"""What every HTTP listener of a node shares: limits of connections, requests, bodies and answers."""
