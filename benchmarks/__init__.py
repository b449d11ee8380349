"""Benchmarks: the cost of streamkit, against the same work by hand. ``python -m benchmarks`` runs all subjects.

Each module with a function ``measure`` is one subject. ``benchmarks/README.md`` says how to run them and what the loops
by hand do.
"""
