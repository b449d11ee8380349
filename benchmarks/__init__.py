"""Benchmarks: CPU time for each chunk. ``python -m benchmarks`` runs all subjects; each module is one subject."""
