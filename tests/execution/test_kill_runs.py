"""A short form of ``kill_runs``: some workers are killed and suspended, and the database is restarted."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest
from execution.kill_runs import NEVER, run_campaigns


@pytest.mark.slow
def test_workers_that_are_killed_lose_and_repeat_nothing_that_was_stored() -> None:
    found = anyio.run(run_campaigns, 20, 2, 7)
    assert found.must_be_zero == Counter(dict.fromkeys(NEVER, 0))
    assert found.counted["killed"] + found.counted["suspended"] >= 15
    assert found.counted["restarts"] == 2
