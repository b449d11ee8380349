"""Random damage to every wire's streams: nothing raises, nothing depends on the cuts, memory stays within the limits.

By hand, for as long as wanted: ``PYTHONPATH=tests python -m fuzz --minutes 60 --seed 7``. A failure prints the seed of
the one stream that failed; ``--only SEED`` repeats it.
"""

from __future__ import annotations

import random

import pytest
from fuzz.runner import PROVIDERS, memory_seed, stream_seed

pytestmark = pytest.mark.slow

STREAMS, LONG_STREAMS = 40, 2  # for each provider; together about a minute
LENGTH = 8000  # chunks; by hand five times as many


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_damaged_stream_is_read_the_same_in_every_form_and_split(provider: str) -> None:
    chance = random.Random(f"{provider} streams")  # noqa: S311 - choices of tests, no secrets
    for _ in range(STREAMS):
        stream_seed(provider, chance.randrange(2**32))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_stream_without_an_end_is_held_within_the_limits(provider: str) -> None:
    chance = random.Random(f"{provider} memory")  # noqa: S311 - choices of tests, no secrets
    for _ in range(LONG_STREAMS):
        memory_seed(provider, chance.randrange(2**32), LENGTH)
