"""The packages of the extra ``dev`` that ``suite`` lacks: a test that needs a missing one is skipped, with the reason.

A module of tests that imports one is skipped as a whole, a test that imports one as it runs is skipped alone. pytest's
summary has one line for each module and reason. An import of anything else that fails is an error, as ever.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any

import pytest

#: The distribution by the name that is imported.
DISTRIBUTIONS = {
    "ag_ui": "ag-ui-protocol",
    "anthropic": "anthropic",
    "boto3": "boto3",
    "botocore": "boto3",
    "cohere": "cohere",
    "coverage": "coverage",
    "dbos": "dbos",
    "django": "django",
    "fastapi": "fastapi",
    "genai_prices": "genai-prices",
    "google": "google-genai",
    "groq": "groq",
    "jsonschema": "jsonschema",
    "mcp": "mcp",
    "mistralai": "mistralai",
    "mypy": "mypy",
    "ollama": "ollama",
    "openai": "openai",
    "opentelemetry": "opentelemetry-api",
    "opentelemetry.exporter": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "orjson": "orjson",
    "playwright": "playwright",
    "prometheus_client": "prometheus-client",
    "psycopg": "psycopg",
    "psycopg_pool": "psycopg",
    "pyright": "pyright",
    "redis": "redis",
    "ruff": "ruff",
    "yaml": "pyyaml",
}


class Module(pytest.Module):
    """A module of tests that is skipped if it imports an optional package that is missing."""

    def collect(self) -> Any:
        """Return the tests of the module, or skip it."""
        try:
            return super().collect()
        except self.CollectError as error:
            _skip_if_missing(error.__cause__)
            raise


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Any, parent: Any) -> pytest.Module:
    """Make every module of tests one that optional packages may be missing for."""
    return Module.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have an example of hypothesis skip its test: else hypothesis searches for a smaller one whose import fails."""
    for item in items:
        if (property_ := getattr(getattr(item, "obj", None), "hypothesis", None)) is not None:
            property_.inner_test = _skipping_test(property_.inner_test)


def _skipping_test(test: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(test)
    def skipping(*arguments: Any, **named: Any) -> Any:
        try:
            return test(*arguments, **named)
        except ModuleNotFoundError as error:
            _skip_if_missing(error)
            raise

    return skipping


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, Any, Any]:
    """Skip a test whose fixture imports an optional package that is missing."""
    return (yield from _skipping())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """Skip a test that imports an optional package that is missing."""
    return (yield from _skipping())


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, pytest.CollectReport]:
    """Name a module as the place of its own skip."""
    report: pytest.CollectReport = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        report.longrepr = (str(collector.path), 0, report.longrepr[2])
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Name a test's module as the place of its skip, so that the summary has one line for a module and a reason."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        report.longrepr = (str(item.path), None, report.longrepr[2])
    return report


def _skipping() -> Generator[None, Any, Any]:
    try:
        return (yield)
    except Exception as error:
        _skip_if_missing(error)
        raise


def _skip_if_missing(error: BaseException | None) -> None:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # raised in a task group
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        distribution = DISTRIBUTIONS.get(error.name) or DISTRIBUTIONS.get(error.name.partition(".")[0])
        if distribution is not None:
            pytest.skip(f"{distribution} is not installed (extra 'dev')", allow_module_level=True)
