"""The benchmarks measure what they say: forms of frames, loops by hand, and rows with their targets."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from shared_data import ROOT

from streamkit import Turn

pytest.importorskip("orjson")
pytestmark = pytest.mark.usefixtures("checkout_on_path")

PROVIDERS = ["openai_chat", "openrouter", "perplexity", "anthropic", "openai_responses", "gemini", "bedrock_converse"]
PROVIDERS += ["cohere", "kimi", "ollama"]


@pytest.fixture
def checkout_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def benchmark(name: str) -> Any:
    return importlib.import_module(f"benchmarks.{name}")


def read(provider: str, reads: list[bytes]) -> Turn:
    turn = Turn(provider, turn_key="benchmark")
    for data in reads:
        turn.feed(data)
    turn.close()
    return turn


def test_every_synthetic_turn_is_tested() -> None:
    assert set(benchmark("streams").TURNS) == set(PROVIDERS)


@pytest.mark.parametrize(("frames", "calls"), [(6, 0), (40, 0), (12, 1), (40, 2), (200, 2)])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_synthetic_turn_is_a_stream_without_fault(provider: str, frames: int, calls: int) -> None:
    turn = read(provider, benchmark("streams").make_turn(provider, frames, calls))
    assert turn.error is None
    assert not turn.warnings
    assert len(turn.executable) == calls
    assert turn.text
    assert turn.reasoning
    assert all(set(call.arguments) == {"text"} for call in turn.calls)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_synthetic_turn_without_reasoning_has_none(provider: str) -> None:
    turn = read(provider, benchmark("streams").make_turn(provider, 40, 1, reasoning=0))
    assert turn.error is None
    assert not turn.warnings
    assert (turn.reasoning, len(turn.executable)) == ("", 1)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_read_of_a_synthetic_turn_is_one_frame(provider: str) -> None:
    floors, reads = benchmark("floors"), benchmark("streams").make_turn(provider, 40)
    decode = floors.DECODE[floors.wire_of(provider)]
    silent = [data for data in reads if not decode([data])]
    assert all(data.startswith((b"data: [DONE]", b": PROCESSING")) for data in silent)
    assert decode(reads) == len(reads) - len(silent)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_loop_by_hand_keeps_what_a_turn_reads(provider: str) -> None:
    floors, reads = benchmark("floors"), benchmark("streams").make_turn(provider, 200)
    turn = read(provider, reads)
    calls = [(call.name, call.arguments) for call in turn.calls]
    assert floors.KEEP[floors.wire_of(provider)](reads) == (turn.text, turn.reasoning, calls)
    assert floors.KEEP[floors.wire_of(provider)]([b"".join(reads)]) == (turn.text, turn.reasoning, calls)


def test_the_loops_by_hand_find_and_are_told_the_same_chunks() -> None:
    floors, make_turn = benchmark("floors"), benchmark("streams").make_turn
    for provider, line_end in (("openrouter", b"\n"), ("perplexity", b"\r\n")):
        data = b"".join(make_turn(provider, 40))
        cuts = [data[at : at + 7] for at in range(0, len(data), 7)]
        assert floors.decode_sse(cuts) == floors.decode_told(cuts, line_end) == floors.decode_sse([data]) > 40


def test_the_synthetic_turns_have_every_form_that_their_recorded_streams_often_have() -> None:
    forms, floors, streams = benchmark("forms"), benchmark("floors"), benchmark("streams")
    synthetic: dict[str, dict[str, float]] = {}
    for provider in streams.TURNS:
        for name, share in forms.shares(streams.make_turn(provider, 200)).items():
            have = synthetic.setdefault(floors.wire_of(provider), {})
            have[name] = max(have.get(name, 0), share)
    assert all(any(shares[name] for shares in synthetic.values()) for name in forms.FORMS)
    for captures in {None, benchmark("recorded").find_captures()}:
        recorded: dict[str, list[bytes]] = {}
        for stream in benchmark("recorded").load_streams(captures):
            recorded.setdefault(stream.wire, []).extend(stream.reads)
        missing = [
            (wire, name)
            for wire in synthetic
            for name, share in forms.shares(recorded[wire]).items()
            if share > 0.05 and not synthetic[wire][name]
        ]
        assert not missing


def test_padding_has_its_boundary_values() -> None:
    make_turn = benchmark("streams").make_turn
    anthropic = [data.rstrip(b"\n") for data in make_turn("anthropic", 200) if b'"content_block_delta"' in data]
    assert {len(data) - len(data[:-1].rstrip(b" ")) - 1 for data in anthropic} == set(range(16))
    for provider in ("openai_chat", "openai_responses"):
        paddings = [data.rpartition(b'"obfuscation":"')[2].partition(b'"')[0] for data in make_turn(provider, 2_450)]
        assert {0, 1, 15} <= set(map(len, paddings))


def test_each_kind_of_step_is_named() -> None:
    non_deltas, recorded = benchmark("non_deltas"), benchmark("recorded")
    reads = benchmark("streams").make_turn("anthropic", 40, 1)
    kinds = non_deltas.kinds_of(recorded.Recorded("anthropic", "anthropic", "x", reads, len(reads)))
    assert len(kinds) == len(reads) + 2
    assert set(kinds) == {"", *non_deltas.KINDS}
    assert (kinds.count("start of a call"), kinds.count("end of a call"), kinds.count("usage and finish")) == (1, 1, 1)


@pytest.mark.asyncio  # of the SDK that is compared with
@pytest.mark.parametrize("library", ["openai, by hand", "streamkit"])
async def test_an_agents_turn_runs_both_tools_and_gets_the_answer(library: str) -> None:
    pytest.importorskip("openai")
    agents, peers = benchmark("agents"), benchmark("peers")
    async with agents.async_client(peers.http_library()) as client:
        assert agents.ANSWER in await agents.LIBRARIES[library][1](client)()
