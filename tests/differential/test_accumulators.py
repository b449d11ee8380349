"""streamkit against the official SDKs' own accumulators, over our cases and the recorded streams.

SDKs are witnesses, not oracles. Where they differ from us, ``divergences.toml`` says why: a difference that is not
there fails, and so does one that is there and gone.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from differential.sdk_accumulators import VERSIONS, WITNESSES, Said
from shared_data import CAPTURES, recorded_streams

from streamkit import Turn, providers
from streamkit.testing import cases_in
from streamkit.testing.conformance import Case

HERE = Path(__file__).parent
CASES = HERE.parent / "conformance" / "cases"
DIVERGENCES: list[dict[str, Any]] = tomllib.loads((HERE / "divergences.toml").read_text("utf-8"))["divergence"]
LISTED = {case: set(differs) for entry in DIVERGENCES for case, differs in entry.get("cases", {}).items()}
LISTED_OF_RECORDED = {
    (provider, frozenset(differs))
    for entry in DIVERGENCES
    for provider, ways in entry.get("recorded", {}).items()
    for differs in ways
}


def witness_of(provider: str) -> Callable[[bytes], Said] | None:
    chat = providers.get(provider).package == "streamkit.providers.openai_chat"
    return WITNESSES.get("openai_chat" if chat else provider)


def ours(turn: Turn, witness: Said, provider: str) -> Said:
    """What the turn says, in the witness's words."""
    usage = turn.usage
    said: Said = {
        "text": turn.text,
        "refusal": turn.refusal,
        "calls": [
            [call.name, call.arguments if provider == "anthropic" else call.arguments_text, call.raw_id or ""]
            for call in turn.calls
        ],
        "usage": usage and [usage.input_tokens or 0, usage.output_tokens or 0],
    }
    if provider in ("anthropic", "openai_responses"):  # chat's witness knows no reasoning
        said["reasoning"] = turn.reasoning
    if provider != "openai_responses":  # its witness gives the response's status, from which the reason follows
        said["finish"] = turn.finish and turn.finish.raw
    if provider == "anthropic":  # its partial objects leave out what is cut, ours give it: only whole ones are compared
        for theirs, call in zip(witness.get("calls", []), said["calls"], strict=False):
            theirs[1] = theirs[1] if call[1] is not None else None
    return {name: value for name, value in said.items() if value and value != [0, 0]}


def differing(provider: str, data: bytes, turn: Turn) -> set[str]:
    witness_to = witness_of(provider)
    assert witness_to is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pydantic's, of fields that are not what the SDK's types say
        witness = witness_to(data)
    said = ours(turn, witness, provider)
    return {name for name in {**witness, **said} if witness.get(name) != said.get(name)}


def streams() -> Iterator[Path]:
    for provider in providers.names():
        if witness_of(provider) is None or provider == "openai_responses":
            continue  # that SDK refuses streams without the announcements that our cases leave out
        for path in cases_in(CASES / provider):
            case = Case(providers.get(provider), path)
            is_body = "body" in case.fields or any(file.suffix == ".txt" for file in case.byte_files)
            has_options = {"status", "transport_error", "options"} & case.fields.keys()  # which the SDKs do not have
            if not is_body and not has_options and "bytes" in case.fields.get("inputs", ["bytes"]):
                yield path


@pytest.mark.parametrize("path", list(streams()), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_sdk_accumulates_the_same_turn_from_a_case(path: Path) -> None:
    case = Case(providers.get(path.parent.name), path)
    data = case.inputs()["bytes"][0][0]
    turn, _ = case.run([data])
    differences = differing(path.parent.name, data, turn)
    assert differences == LISTED.get(f"{path.parent.name}/{path.stem}", set()), VERSIONS


def test_every_listed_case_exists() -> None:
    assert LISTED.keys() <= {f"{path.parent.name}/{path.stem}" for path in streams()}


@pytest.mark.slow
def test_the_sdks_accumulate_the_same_turns_from_recorded_streams() -> None:
    differences: set[tuple[str, frozenset[str]]] = set()
    compared = 0
    for stream in recorded_streams():
        if stream.provider not in providers.names() or witness_of(stream.provider) is None:
            continue
        turn = Turn(stream.provider, "t")
        turn.feed(stream.data)
        turn.close()
        if differs := differing(stream.provider, stream.data, turn):
            differences.add((stream.provider, frozenset(differs)))
        compared += 1
    assert compared > 10
    assert differences - LISTED_OF_RECORDED == set()
    if CAPTURES.is_dir():  # the streams of the repository alone do not show every divergence
        assert compared > 100
        assert LISTED_OF_RECORDED - differences == set()


def test_every_divergence_has_its_reason_and_its_evidence() -> None:
    for entry in DIVERGENCES:
        assert entry.keys() <= {"reason", "evidence", "cases", "recorded"}
        assert len(entry["reason"].split()) > 5
        assert entry["evidence"]
        assert entry.get("cases") or entry.get("recorded")
    assert len(LISTED) == sum(len(entry.get("cases", {})) for entry in DIVERGENCES)  # each case under one reason
