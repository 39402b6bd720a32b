"""A broker's metrics: what its handlers count (`traffic`), and its figures on the page of metrics."""
