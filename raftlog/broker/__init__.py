"""The broker: its HTTP listeners, what waits in them, and how its parts are put together."""
