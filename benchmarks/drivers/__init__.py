"""Client processes that benchmarks measure: one module for each client library, all of the same shape.

`python -m benchmarks.drivers.NAME JOB` does one job (see `shape.Job`, in JSON) and prints one JSON object. They run in
the environment that has their library; beside it they need the standard library alone.
"""
