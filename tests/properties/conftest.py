"""Hypothesis profiles: the same examples at every run; ``--hypothesis-profile deep`` tries more and random ones."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True, database=None, max_examples=50)
settings.register_profile("deep", deadline=None, max_examples=2000)
settings.load_profile("suite")
