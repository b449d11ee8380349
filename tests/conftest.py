"""Fixtures and settings of all tests: asynchronous tests run on asyncio and on trio.

Hypothesis tries the same few examples at every run and stores none. ``--hypothesis-profile full``, which ``.ci/run``
gives, tries more of them, and ``deep`` many random ones, for any selection of tests.

Tests that need a package which is not installed are skipped (``optional_packages``).

Bytecode is cached, also where ``PYTHONDONTWRITEBYTECODE`` is set, as in many images of containers: compiling the
package and the tests, in each worker and in each program that a test starts, took a third of a run. Every other worker
collects the files from the last to the first, so that in a new checkout each compiles a half and reads the other.

``--random-delays`` delays threads and event loops (``random_delays``).

HTTP clients share one TLS context for each set of arguments: reading the certificates of all authorities takes 40 ms,
every client of every SDK does it when it is created, and the servers of the tests have no TLS.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
import ssl
import sys
from collections.abc import Generator
from typing import Any

import pytest
import random_delays
from hypothesis import settings

pytest_plugins = ["optional_packages"]

settings.register_profile("suite", deadline=None, derandomize=True, database=None, max_examples=15)
settings.register_profile("full", settings.get_profile("suite"), max_examples=200)
settings.register_profile("deep", deadline=None, database=None, max_examples=2000)
settings.load_profile("suite")

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # of the workers and of the programs that tests start

# A shell without job control starts a background job with Ctrl-C ignored, and so are all programs that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Before any test module imports an SDK.
pytest.MonkeyPatch().setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of random delays."""
    parser.addoption(
        "--random-delays",
        action="store_true",
        help="delay threads and event loops at random, to find what depends on their order or their speed",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin the random delays, if they are wanted, with another seed in each process."""
    if config.getoption("--random-delays"):
        random_delays.install(os.getpid())


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, pytest.CollectReport]:
    """Reverse the files of a folder in every other worker."""
    report: pytest.CollectReport = yield
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579" and isinstance(collector, pytest.Directory):
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give all workers one order of tests."""
    items.sort(key=lambda item: item.path)


def pytest_collection_finish() -> None:
    """Take the collected tests out of garbage collections, which would search all 13,000 of them each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def small_heap() -> None:
    """Exclude the objects of earlier tests from garbage collections, for a module whose tests call ``gc.collect``.

    Once the SDKs are imported a collection takes 0.2 s, most of the time of such a test.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Both event loops, for every test marked ``anyio``, or those that ``virtual_clock`` makes for one test."""
    return request.param() if callable(request.param) else str(request.param)
