"""Random delays of threads and event loops, which show what depends on their order or their speed.

``python -m pytest --random-delays`` runs any tests with them. A test that fails only then expects an order that nothing
guarantees, or shows a race of the library. The delays are those of a busy machine: a thread begins or ends up to 20 ms
later, an event loop looks at its events up to 60 ms later, and threads take turns after 10 us.
"""

from __future__ import annotations

import asyncio
import asyncio.base_events
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["install"]

_THREAD_DELAY, _LOOP_DELAY, _WAKE_DELAY = 0.02, 0.06, 0.003  # seconds at most
_THREADS, _LOOPS = 0.5, 0.02  # the share of threads, and of rounds of an event loop, that are delayed
_SWITCH_INTERVAL = 1e-5  # seconds; 5 ms by default


def install(seed: int) -> None:
    """Delay threads and event loops from now on.

    Args:
        seed: decides which ones. The same seed does not repeat a run, because threads take the delays as they come.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    patch, generator, sleep = pytest.MonkeyPatch(), random.Random(seed), time.sleep  # noqa: S311 - no secret

    def delay(share: float, most: float) -> None:
        if generator.random() < share:
            sleep(generator.random() * most)

    def delayed(method: Callable[..., Any], share: float, most: float) -> Callable[..., Any]:
        def run(*args: Any, **keywords: Any) -> Any:
            delay(share, most)
            return method(*args, **keywords)

        return run

    run_thread = threading.Thread.run

    def run(self: threading.Thread) -> None:
        delay(_THREADS, _THREAD_DELAY)
        try:
            run_thread(self)
        finally:
            delay(_THREADS, _THREAD_DELAY)

    patch.setattr(threading.Thread, "run", run)
    loop = asyncio.base_events.BaseEventLoop
    patch.setattr(loop, "_run_once", delayed(loop._run_once, _LOOPS, _LOOP_DELAY))  # type: ignore[attr-defined]
    patch.setattr(loop, "call_soon_threadsafe", delayed(loop.call_soon_threadsafe, _THREADS / 3, _WAKE_DELAY))
    try:
        from trio._core._io_epoll import EpollIOManager
    except ImportError:  # another system's event loop of trio, or no trio
        return
    patch.setattr(EpollIOManager, "process_events", delayed(EpollIOManager.process_events, _LOOPS, _LOOP_DELAY))
