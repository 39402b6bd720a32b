"""The chaos suite: real processes, one Toxiproxy proxy for each link, real kills, and a checker."""
