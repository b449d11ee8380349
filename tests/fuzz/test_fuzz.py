"""The corpus of the fuzzer, a sample of damaged inputs of every target, and the fuzzer itself: what it must find.

``python -m tests.fuzz`` runs for as long as wanted (CONTRIBUTING.md, "Fuzzing").
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compiled import interpreted_only
from fuzz import targets
from fuzz.checks import check_held_memory
from fuzz.inputs import Input, encode_parts, expand, part_bytes, sources
from fuzz.minimize import minimize
from fuzz.mutations import amplify
from fuzz.report import Report, examine_within
from fuzz.runner import main, run_blind
from fuzz.target import Target
from fuzz.targets import CORPUS, TARGETS, Finding, damaged, examine, seeds, stored_inputs

from streamkit import providers
from streamkit.providers.openai_chat.parser import ChatParser

PROVIDERS = sorted({source.provider for source in sources()})
INPUTS, LONG_STREAMS = 150, 2  # for each target and provider; together about a minute
LENGTH = 8000  # chunks of a stream without an end


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_has_no_finding(name: str) -> None:
    for given in stored_inputs(name):
        finding, detail, _ = examine(given)
        assert finding is None, f"{given.to_json().decode()}\n{detail}"


@pytest.mark.parametrize("name", TARGETS)
def test_undamaged_inputs_have_no_finding_and_are_not_refused(name: str) -> None:
    chosen = seeds(name)[:: max(1, len(seeds(name)) // 12)]
    assert chosen
    for given in chosen:
        assert Input.from_json(given.to_json()) == given
        TARGETS[name].run(given)


def test_the_corpus_is_small() -> None:
    files = list(CORPUS.iterdir())
    assert {path.stem for path in files} <= {*TARGETS, "mcp_result", "page"}  # whose packages may be missing
    assert sum(path.stat().st_size for path in files) < 600_000


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_of_a_target_have_no_finding(name: str) -> None:
    report = Report()
    run_blind(report, [name], 1, None, INPUTS * (3 if name.startswith("feed") else 1))
    assert not report.findings, "\n".join(text for _, _, text in report.findings.values())


@pytest.mark.slow
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_stream_without_an_end_is_held_within_the_limits(provider: str) -> None:
    own = [source for source in sources() if source.provider == provider]
    chance = random.Random(f"{provider} memory")
    for _ in range(LONG_STREAMS):
        source = chance.choice(own)
        markup, form = chance.choice(("keep", "keep", "strip", "recover")), chance.choice(("bytes", "bytes", "dict"))
        check_held_memory(provider, amplify(source, chance), markup=markup, form=form, length=LENGTH)  # type: ignore[arg-type]


# ---------------------------------------------------------------- documents


def test_a_document_stands_for_large_values_within_the_limits_of_one_input() -> None:
    assert expand([1, {"$times": 2, "$value": {"a": 3}}]) == [1, {"a": 3}, {"a": 3}]
    assert expand({"a": {"$times": 3, "$value": "xy"}}) == {"a": "xyxyxy"}
    assert expand({"$nest": 2, "$value": 0}) == [[0]]
    assert expand({"$nest": 2, "$value": 0, "$name": "a"}) == {"a": {"a": 0}}
    assert expand({"$keys": 2, "$value": []}) == {"key0": [], "key1": []}
    assert len(expand({"$times": 10**12, "$value": {}})) == 4000
    assert len(expand([{"$times": 10**12, "$value": "x"}, {"$times": 9, "$value": "x"}])[0]) == 150_000
    assert part_bytes({"$bytes": "\xff\u2028", "$times": 2}) == b"\xff\xe2\x80\xa8" * 2
    assert part_bytes({"$bytes": 1}) is None


@pytest.mark.parametrize("provider", PROVIDERS)
def test_frames_of_undamaged_streams_are_those_of_the_conformance_kit(provider: str) -> None:
    from streamkit.testing.case import encode_stream

    source = next(source for source in sources() if source.provider == provider)
    chunks = list(source.chunks[:5])
    assert b"".join(encode_parts(chunks, provider)) == encode_stream(chunks, providers.get(provider).traits)


@pytest.mark.parametrize("name", TARGETS)
def test_damage_depends_on_its_seed_alone_and_leaves_the_input_as_it_was(name: str) -> None:
    given = seeds(name)[0]
    before = given.to_json()
    one, other = ([damaged(given, random.Random(seed)) for seed in range(20)] for _ in range(2))
    assert [each.to_json() for each in one] == [each.to_json() for each in other]
    assert given.to_json() == before
    assert len({each.to_json() for each in one}) > 10


# ---------------------------------------------------------------- what the fuzzer finds


def _fails_for_three_of_a_name(given: Input) -> None:
    for part in given.parts:
        value = expand(part)
        if isinstance(value, dict) and value.get("model") == "broken" and len(given.parts) > 1:
            raise KeyError("model")


def test_a_finding_is_counted_once_for_each_way_and_minimized(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target("planted", _fails_for_three_of_a_name, (ValueError,), list)
    monkeypatch.setitem(targets.TARGETS, "planted", target)
    chunks: list[Any] = [{"id": str(at), "model": "broken" if at == 5 else "m", "x": [1, 2]} for at in range(9)]
    report = Report()
    for seed in range(3):
        examine_within(Input("planted", seed=seed, parts=chunks), report)
    ((finding, (count, given, detail)),) = report.findings.items()
    assert (finding, count) == (Finding("planted", "exception", "KeyError in the target"), 3)
    assert "KeyError: 'model'" in detail
    smallest = minimize(given, finding)
    assert len(smallest.parts) == 2
    assert {"model": "broken"} in smallest.parts
    assert len(smallest.to_json()) < 140


def test_an_exception_that_the_target_may_raise_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target("planted", _fails_for_three_of_a_name, (KeyError,), list)
    monkeypatch.setitem(targets.TARGETS, "planted", target)
    assert examine(Input("planted", parts=[{"model": "broken"}, {}])) == (None, "", [])


@interpreted_only
@pytest.mark.parametrize("provider", ["openai_chat", "groq"])
def test_an_exception_of_a_parser_is_found_and_the_command_says_so(
    provider: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: object, chunk: Any) -> None:
        raise AttributeError("planted")

    monkeypatch.setattr(ChatParser, "chunk", broken)
    given = replace(next(seed for seed in seeds("feed_dicts") if seed.provider == provider), seed=1)
    path = tmp_path / "input.json"
    path.write_bytes(given.to_json())
    assert main(["--replay", str(path), "--folder", str(tmp_path / "findings")]) == 1
    printed = capsys.readouterr().out
    assert "finding 1: feed_dicts: exception: AttributeError" in printed
    assert [each.suffix for each in (tmp_path / "findings").iterdir()] == [".json", ".json"]


def test_the_command_without_a_finding_returns_0(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--blind", "--inputs", "20", "--target", "growing", "--target", "tool_schemas"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in printed[1:4]] == [["growing", "10"], ["tool_schemas", "10"], ["all", "20"]]
    assert printed[4] == "coverage: not measured; findings: 0"


def test_without_atheris_the_command_says_so_and_chooses_blindly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["--inputs", "5", "--target", "growing"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("skipped: atheris is not installed (extra 'fuzz'")
    assert printed[2].split()[:2] == ["growing", "5"]


@pytest.mark.slow
@interpreted_only
def test_atheris_chooses_inputs_by_the_branches_they_reach(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("atheris", reason="atheris is not installed (extra 'fuzz', Python 3.11)")
    assert main(["--inputs", "300", "--target", "growing", "--seed", "1"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[1].split()[:2] == ["growing", "300"]
    reached, branches = (int(number.replace(",", "")) for number in re.findall(r"[\d,]+(?= of| branches)", table[3]))
    assert 300 < reached < branches


def test_a_report_is_merged_from_that_of_a_process(tmp_path: Path) -> None:
    report = Report()
    finding, given = Finding("growing", "exception", "x"), Input("growing", parts=["\ud83d"])
    report.add(finding, given, "long")
    report.inputs["growing"] = 7
    report.save(tmp_path / "report.json")
    assert "is_whole" in json.loads((tmp_path / "report.json").read_text())
    merged = Report()
    assert merged.merge(tmp_path / "report.json") is False
    assert merged.findings == {finding: (1, given, "long")}
    assert merged.total == 7
    assert merged.merge(tmp_path / "none.json") is False


def _disagreeing(given: Input) -> Iterable[str] | None:
    return ["a note"]


def test_what_is_reported_is_no_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(targets.TARGETS, "planted", Target("planted", _disagreeing, (), lambda: [Input("planted")]))
    report = Report()
    examine_within(Input("planted"), report)
    assert (list(report.notes), report.findings) == (["a note"], {})
