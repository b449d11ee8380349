"""The chunk objects of the official SDKs, read from our cases and the recorded streams over real HTTP by the SDKs'
own clients, give the turn that the bytes give. What an SDK loses is listed in ``sdk_losses.toml``: a difference that is
not there fails, and so does one that is there and gone.
"""

from __future__ import annotations

import json
import logging
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sdk_clients import SDKS
from sdk_streams import Streams
from shared_data import RecordedStream, recorded_streams

from streamkit import Turn, providers
from streamkit.testing import cases_in
from streamkit.testing.case import full_snapshot
from streamkit.testing.conformance import Case

HERE = Path(__file__).parent
CASES = HERE.parent / "conformance" / "cases"
LOSSES: dict[tuple[str, str], set[str]] = {
    (provider, case): set(loss["differs"])
    for loss in tomllib.loads((HERE / "sdk_losses.toml").read_text("utf-8"))["loss"]
    for provider in [loss["provider"]]
    for case in loss["cases"]
}


@pytest.fixture(scope="module")
def streams() -> Iterator[Streams]:
    logging.disable(logging.WARNING)  # cohere's SDK logs what it leaves out
    streams = Streams()
    yield streams
    streams.close()
    logging.disable(logging.NOTSET)


def said(turn: Turn) -> dict[str, Any]:
    """All that a turn says, but for usage as the wire had it: the SDKs leave out what they have no field for."""
    plain = full_snapshot(turn)
    if plain["usage"] is not None:
        plain["usage"].pop("raw")
    return plain


SAYINGS = ("text", "reasoning", "refusal", "calls", "server_calls", "finish", "usage", "error", "warnings")


def differing(by_bytes: Turn, by_objects: Turn) -> set[str]:
    """The members in which two turns differ; where it is none of what a turn says, those in which its content does.

    Where the bytes end in an error, only what came before it is compared: the SDKs show errors as exceptions, and the
    end of a cut stream not at all.
    """
    first, other = said(by_bytes), said(by_objects)
    names = SAYINGS if by_bytes.error is None else SAYINGS[:3]
    found = {name for name in names if first[name] != other[name]}
    return found or {name for name in first if by_bytes.error is None and first[name] != other[name]}


def stream_cases() -> list[Path]:
    paths = []
    for provider in providers.names():
        for path in cases_in(CASES / provider):
            case = Case(providers.get(provider), path)
            is_body = "body" in case.fields or any(file.suffix == ".txt" for file in case.byte_files)
            has_transport = {"status", "transport_error"} & case.fields.keys()
            if not is_body and not has_transport and "bytes" in case.fields.get("inputs", ["bytes"]):
                paths.append(path)
    return paths


@pytest.mark.parametrize("path", stream_cases(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_objects_give_the_turn_that_bytes_give(path: Path, streams: Streams) -> None:
    case = Case(providers.get(path.parent.name), path)
    data = case.inputs()["bytes"][0][0]
    by_bytes, _ = case.run([data])
    by_objects = case.turn()
    streams.read(data, by_objects)
    assert differing(by_bytes, by_objects) == LOSSES.get((path.parent.name, path.stem), set())


def test_every_listed_loss_is_of_a_case() -> None:
    assert LOSSES.keys() <= {(path.parent.name, path.stem) for path in stream_cases()}


# ---------------------------------------------------------------- recorded streams


def recorded() -> dict[str, list[RecordedStream]]:
    by_provider: dict[str, list[RecordedStream]] = {}
    for stream in recorded_streams():
        by_provider.setdefault(stream.provider, []).append(stream)
    return by_provider


def never(_: bytes) -> bool:
    return False


# Streams that an SDK does not read at all, whatever is in them.
UNREADABLE: dict[str, Callable[[bytes], bool]] = {
    "anthropic": lambda data: b"event:" not in data,  # events are told apart by the SSE name alone
    "gemini": lambda data: data.lstrip()[:1] == b"[",  # asked for with alt=sse
    "bedrock_converse": lambda data: data[:1] == b"{",  # recorded as unpacked events
    "bedrock_invoke": lambda data: data[:1] == b"{",
}


def as_far_as_the_sdk_shows(provider: str, plain: dict[str, Any]) -> dict[str, Any]:
    """A turn without what that SDK loses of every stream."""
    if provider == "ollama":  # the calls' ids
        return {name: plain[name] for name in ("text", "reasoning", "finish", "usage", "error")} | {
            "calls": [(call["name"], call["arguments"]) for call in plain["calls"]]
        }
    if provider == "gemini":  # signatures are decoded and encoded again: the alphabet is the standard one
        return json.loads(json.dumps(plain).translate(str.maketrans("-_", "+/")))
    if provider == "anthropic":  # [DONE], which some gateways add, is refused after the end
        plain["warnings"] = [warning for warning in plain["warnings"] if warning["code"] != "transport_error"]
    return plain


@pytest.mark.slow
@pytest.mark.parametrize("provider", sorted({*recorded()}))
def test_objects_of_recorded_streams_give_the_turn_that_bytes_give(provider: str, streams: Streams) -> None:
    read = 0
    for stream in recorded()[provider]:
        data = stream.data
        if UNREADABLE.get(provider, never)(data):
            continue
        by_bytes, by_objects = Turn(provider, "t"), Turn(provider, "t")
        by_bytes.feed(data)
        by_bytes.close()
        streams.read(data, by_objects)
        if by_bytes.error is not None:
            assert differing(by_bytes, by_objects) == set()
        else:
            shown = [as_far_as_the_sdk_shows(provider, said(turn)) for turn in (by_bytes, by_objects)]
            assert shown[0] == shown[1]
        read += 1
    assert read


def test_every_sdk_has_recorded_streams_or_cases() -> None:
    assert {*SDKS} <= {*providers.names()}
