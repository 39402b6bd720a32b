"""The chaos suite: real processes, each link through its own Toxiproxy proxy, real kills, and a checker."""
