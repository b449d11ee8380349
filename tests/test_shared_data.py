"""The larger collection next to the checkout: recorded streams, quirk cases, vectors of ids.

The checker that is part of the collection runs them through the public contract, one test for each stream, case and set
of vectors. The tests are skipped if the collection does not exist, and say which path is missing.
"""

from __future__ import annotations

import importlib.util
import json
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from shared_data import SHARED

from streamkit import providers

CHECKER = SHARED / "conformance" / "check.py"
SLOW_FROM = 24 * 1024  # bytes of a stream from which on reading it byte by byte is left to the slow tests

pytestmark = pytest.mark.skipif(not CHECKER.exists(), reason=f"the shared data does not exist: {CHECKER}")


def load() -> ModuleType | None:
    if not CHECKER.exists():
        return None
    spec = importlib.util.spec_from_file_location("shared_check", CHECKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check: Any = load()


def entries() -> list[dict[str, Any]]:
    if check is None:
        return []
    found: list[dict[str, Any]] = json.loads((SHARED / "captures" / "manifest.json").read_text())["files"]
    return found


def cases() -> list[Any]:
    """Return the cases as parameters: one with 10,000 repetitions or more in full as slow, and shortened."""
    if check is None:
        return []
    found = []
    for line in (SHARED / "cases" / "cases.jsonl").read_text().strip().split("\n"):
        shorter = re.sub(r'"times": \d{5,}', '"times": 5000', line)  # of the chunk, and of the text that is expected
        case = json.loads(shorter)
        if case["wire"] not in ("replay", "exec"):
            found.append(pytest.param(case, id=case["id"]))
            if shorter != line:
                found.append(pytest.param(json.loads(line), id=f"{case['id']}-complete", marks=pytest.mark.slow))
    return found


def needs(provider: str) -> None:
    if provider not in providers.names():
        pytest.skip(f"there is no provider {provider!r} yet")


def stream_of(entry: dict[str, Any]) -> bytes:
    data: bytes = (SHARED / "captures" / entry["file"]).read_bytes()
    return data


def ways(data: bytes, seed: str, *, slow: bool) -> Iterator[list[bytes]]:
    """Yield the checker's cuts: the single bytes of a large stream only if ``slow``, all others only if not."""
    for pieces in check.cuts(data, random.Random(seed)):  # noqa: S311 - a network is not a secret
        single = len(data) > 1 and len(pieces) == len(data)
        if slow == (single and len(data) > SLOW_FROM):
            yield pieces


def hold(entry: dict[str, Any], *, slow: bool) -> None:
    provider = check.provider_name(entry["wire"])
    needs(provider)
    data = stream_of(entry)
    whole = check.run(provider, [data])
    if entry["expectation_confidence"] != "unsure" or entry["error"] is not None:
        assert check.faults(entry, whole) == []
    for pieces in ways(data, entry["sha256"], slow=slow):
        assert check.run(provider, pieces) == whole


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry["file"])
def test_recorded_stream(entry: dict[str, Any]) -> None:
    hold(entry, slow=False)


def is_large(entry: dict[str, Any]) -> bool:
    path = SHARED / "captures" / entry["file"]
    return path.stat().st_size > SLOW_FROM


@pytest.mark.slow
@pytest.mark.parametrize("entry", [entry for entry in entries() if is_large(entry)], ids=lambda entry: entry["file"])
def test_large_recorded_stream_byte_by_byte(entry: dict[str, Any]) -> None:
    hold(entry, slow=True)


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry["file"])
def test_every_complete_call_of_a_recorded_stream_that_ends_in_order_is_executable(entry: dict[str, Any]) -> None:
    provider = check.provider_name(entry["wire"])
    needs(provider)
    turn = check.run(provider, [stream_of(entry)])
    sure = entry["expectation_confidence"] != "unsure"
    if sure and entry["error"] is None and turn["finish"][0] in ("stop", "tool_calls", "length", "other"):
        whole = [call["id"] for call in turn["calls"] if call["state"] == "complete"]
        assert turn["executable"] == whole


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry["file"])
def test_the_wire_of_a_recorded_stream_is_never_detected_wrongly(entry: dict[str, Any]) -> None:
    provider = check.provider_name(entry["wire"])
    needs(provider)
    found = providers.detect(stream_of(entry)[:512])
    assert found is None or providers.get(found).package == providers.get(provider).package


@pytest.mark.parametrize("case", cases())
def test_case(case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs(check.provider_name(case.get("inner_wire", case["wire"])))
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "cases.jsonl").write_text(json.dumps(case))  # the checker would parse all for each
    before = signal.signal(signal.SIGALRM, check.too_long)
    try:
        passed, total = check.check_cases(tmp_path, case["id"], show=True)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert (passed, total) == (1, 1), capsys.readouterr().out


def test_vectors(capsys: pytest.CaptureFixture[str]) -> None:
    passed, total = check.check_vectors(SHARED, show=True)
    assert total
    assert passed == total, capsys.readouterr().out
