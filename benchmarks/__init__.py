"""Benchmarks: figures with bounds, measured on real processes."""
