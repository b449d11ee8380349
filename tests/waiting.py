"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds that only a defect takes: a machine that does much else may stop a thread or a process for several.
PATIENCE = 30


def wait_until(condition: Callable[[], T], describe: Callable[[], object] = lambda: "") -> T:
    """Return what a condition returns, once it is true.

    Args:
        condition: is called until then.
        describe: returns what the failure shows.
    """
    until = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < until, describe()
        time.sleep(0.005)
    return value
