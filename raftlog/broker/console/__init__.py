"""The console: pages for a browser, and what only they request. Other requests of the pages are the public API's."""
