"""streamkit against the official SDKs' own accumulators, over our cases and the recorded streams.

SDKs are witnesses, not oracles. Where they differ from us, ``divergences.toml`` says why: a difference that is not
there fails, and so does one that is there and gone.
"""

from __future__ import annotations

import json
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from differential.sdk_accumulators import VERSIONS, WITNESSES, Said
from shared_data import CAPTURES

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
        for folder in cases_in(CASES / provider):
            case = Case(providers.get(provider), folder)
            body = any(stream.suffix == ".json" for stream in case.streams)
            if (
                not body
                and not {"status", "error", "options"} & case.about.keys()  # an SDK knows nothing of our options
                and "bytes" in case.about.get("door", ["bytes"])
            ):
                yield folder


@pytest.mark.parametrize("folder", list(streams()), ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_the_sdk_says_the_same_of_a_case(folder: Path) -> None:
    case = Case(providers.get(folder.parent.name), folder)
    data = case.inputs()["bytes"][0][0]
    turn, _ = case.run([data])
    found = differing(folder.parent.name, data, turn)
    assert found == LISTED.get(f"{folder.parent.name}/{folder.name}", set()), VERSIONS


def test_every_listed_case_is_there() -> None:
    assert LISTED.keys() <= {f"{folder.parent.name}/{folder.name}" for folder in streams()}


PROVIDERS = {
    "anthropic_messages": "anthropic",
    "groq_chat": "groq",
    "mistral_chat": "mistral",
    "other_openai_compat": "openai_compatible",
}


@pytest.mark.slow
@pytest.mark.skipif(not (CAPTURES / "manifest.json").exists(), reason="no recorded streams here")
def test_the_sdks_say_the_same_of_recorded_streams() -> None:
    found: set[tuple[str, frozenset[str]]] = set()
    read = 0
    for entry in json.loads((CAPTURES / "manifest.json").read_text("utf-8"))["files"]:
        provider = PROVIDERS.get(entry["wire"], entry["wire"])
        if provider not in providers.names() or witness_of(provider) is None:
            continue
        data = (CAPTURES / entry["file"]).read_bytes()
        turn = Turn(provider, "t")
        turn.feed(data)
        turn.close()
        if differs := differing(provider, data, turn):
            found.add((provider, frozenset(differs)))
        read += 1
    assert read > 100
    assert found - LISTED_OF_RECORDED == set()
    assert LISTED_OF_RECORDED - found == set()


def test_every_divergence_has_its_reason_and_its_evidence() -> None:
    for entry in DIVERGENCES:
        assert entry.keys() <= {"reason", "evidence", "cases", "recorded"}
        assert len(entry["reason"].split()) > 5
        assert entry["evidence"]
        assert entry.get("cases") or entry.get("recorded")
    assert len(LISTED) == sum(len(entry.get("cases", {})) for entry in DIVERGENCES)  # each case under one reason
