"""The order of a turn's events: one start of the response, one end of each block, one ready event of each call.

Checked on every conformance case, every recorded stream, on streams that end anywhere, and on random deltas.
"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_data import CONFORMANCE_CASES, RecordedStream, recorded_streams

from streamkit import Turn, events, providers
from streamkit.events import TurnEvent
from streamkit.testing import cases_in
from streamkit.testing.case import Case

CASES = [case for folder in sorted(CONFORMANCE_CASES.iterdir()) for case in cases_in(folder)]
CONTENT = (
    *(events.BlockStarted, events.Text, events.Reasoning, events.Refusal, events.BlockEnded, events.ToolCallStart),
    *(events.ToolCallReady, events.ServerTool, events.Citation, events.Compaction, events.File, events.Finished),
)
LATE = {"late_arguments", "orphan_delta"}
SURROGATE = re.compile("[\ud800-\udfff]")


def some_ends(size: int, count: int) -> list[int]:
    """Return offsets at which a stream may end."""
    return [random.Random(seed).randrange(size + 1) for seed in range(count)]  # noqa: S311 - no secrets


def check_events(turn: Turn, seen: list[TurnEvent]) -> None:
    """Check the events of a closed turn against what the turn contains."""
    check_start(seen)
    for choice in turn._accumulator.choices:
        check_block_ends(choice, [event for event in seen if event.choice == choice.index])
        for call in choice.calls:
            check_call(call, [event for event in seen if event.choice == choice.index])
    for event in seen:
        text = getattr(event, "text", None) or getattr(event, "arguments_delta", None) or ""
        assert SURROGATE.search(text) is None, event
    turn.content.model_validate_json(turn.content.model_dump_json())


def check_start(seen: list[TurnEvent]) -> None:
    starts = [at for at, event in enumerate(seen) if isinstance(event, events.ResponseStarted)]
    content = [at for at, event in enumerate(seen) if isinstance(event, CONTENT)]
    assert len(starts) <= 1
    if content:
        assert starts[0] < content[0]


def check_block_ends(choice: Any, seen: list[TurnEvent]) -> None:
    started = {event.block: event.kind for event in seen if isinstance(event, events.BlockStarted)}
    ended = [event for event in seen if isinstance(event, events.BlockEnded)]
    assert sorted((event.block, event.kind) for event in ended) == sorted(started.items())
    kinds = ("text", "reasoning", "refusal")
    blocks = [block for block in choice.blocks if block.kind in kinds and (block.parts or block.metadata)]
    assert {block.number: block.kind for block in blocks}.items() <= started.items()
    assert [choice.blocks[number].kind for number in started] == list(started.values())


def check_call(call: Any, seen: list[TurnEvent]) -> None:
    own = [event for event in seen if getattr(getattr(event, "call", None), "id", None) == call.id]
    kinds = [type(event) for event in own]
    for kind in (events.ToolCallStart, events.ToolCallEnd, events.ToolCallReady):
        assert kinds.count(kind) == 1, kind
    assert kinds[0] is events.ToolCallStart
    ready_at = kinds.index(events.ToolCallReady)
    is_late = any(isinstance(event, events.Warned) and event.code in (*LATE, "repeated_arguments") for event in seen)
    if not is_late:
        assert kinds[ready_at + 1 :] == []
    ready = own[ready_at].call
    for name in call.__struct_fields__:
        if name == "metadata":
            assert ready.metadata.keys() <= call.metadata.keys()
        else:
            assert getattr(ready, name) == getattr(call, name), name
    text = ""
    for event in own:
        if isinstance(event, events.ToolCallDelta):
            text += event.arguments_delta
        elif isinstance(event, events.ArgumentsRestated):
            text = event.arguments_text
    assert text == call.arguments_text


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_events_of_a_case_are_in_order(path: Any) -> None:
    case = Case(providers.get(path.parent.name), path)
    for splits in case.inputs().values():
        parts = splits[0]
        check_events(*case.run(parts))
        is_bytes = bool(parts) and isinstance(parts[0], bytes)
        for end in some_ends(len(parts[0]) if is_bytes else len(parts), 4):
            check_events(*case.run([parts[0][:end]] if is_bytes else parts[:end]))


@pytest.mark.parametrize("stream", recorded_streams(), ids=str)
def test_the_events_of_a_recorded_stream_are_in_order(stream: RecordedStream) -> None:
    data = stream.data
    for end in [len(data), *some_ends(len(data), 4)]:
        turn = Turn(stream.provider, "turn-1")
        seen = turn.feed(data[:end])
        check_events(turn, seen + turn.close())


ARGUMENTS = st.sampled_from(
    [None, "", "{", "}", "{}", '{"a":1}', '{"a":2}', '{"a":', "1}", " ", "\n", '"', "x", "\ud83d", "\ude00", "null"]
)
CALLS = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"arguments": ARGUMENTS}, optional={"name": st.sampled_from(["f", "g", ""])})},
    optional={"index": st.sampled_from([0, 1, "0", 0.0, 2, None]), "id": st.sampled_from(["a", "b", "", None])},
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": st.sampled_from(["", "a", "\ud83d", "\ude00", "é\n"]),
        "reasoning_content": st.sampled_from(["", "r", "\ude00", "\ud83d"]),
        "refusal": st.sampled_from(["no", "\ud83d"]),
        "tool_calls": st.lists(CALLS, max_size=2),
    },
)
CHOICES = st.fixed_dictionaries(
    {"delta": DELTAS, "index": st.sampled_from([0, 0, 0, 1, "1", 2])},
    optional={"finish_reason": st.sampled_from([None, None, "stop", "tool_calls", "length"])},
)


@given(st.lists(CHOICES, max_size=12), st.booleans(), st.sampled_from(["openai_chat", "vllm"]))
def test_the_events_of_random_deltas_are_in_order(choices: list[Any], complete: bool, provider: str) -> None:
    turn = Turn(provider, "turn-1")
    seen: list[TurnEvent] = []
    for choice in choices:
        seen += turn.feed({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})
    check_events(turn, seen + turn.close(complete=complete))


PARTIAL = st.sampled_from(["", "{", "}", "{}", '{"a":1}', '{"a":', "1}", "\ud83d", "\ude00"])
BLOCKS = st.lists(
    st.one_of(
        st.builds(
            lambda index, kind, call_id: {
                "type": "content_block_start",
                "index": index,
                "content_block": {"type": kind, "id": call_id, "name": "f", "input": {}, "text": "", "thinking": ""},
            },
            st.integers(0, 2),
            st.sampled_from(["text", "thinking", "tool_use"]),
            st.sampled_from(["x", "y"]),
        ),
        st.builds(
            lambda index, delta: {"type": "content_block_delta", "index": index, "delta": delta},
            st.integers(0, 2),
            st.one_of(
                st.builds(lambda text: {"type": "input_json_delta", "partial_json": text}, PARTIAL),
                st.builds(lambda text: {"type": "text_delta", "text": text}, PARTIAL),
                st.builds(lambda text: {"type": "thinking_delta", "thinking": text}, PARTIAL),
                st.builds(lambda text: {"type": "signature_delta", "signature": text}, st.just("sig")),
            ),
        ),
        st.builds(lambda index: {"type": "content_block_stop", "index": index}, st.integers(0, 2)),
        st.builds(
            lambda reason: {"type": "message_delta", "delta": {"stop_reason": reason}},
            st.sampled_from(["tool_use", "max_tokens"]),
        ),
    ),
    max_size=14,
)


@given(BLOCKS, st.booleans())
def test_the_events_of_random_blocks_are_in_order(blocks: list[Any], is_stopped: bool) -> None:
    turn = Turn("anthropic", "turn-1")
    start = {"type": "message_start", "message": {"id": "m", "model": "m", "content": [], "role": "assistant"}}
    seen: list[TurnEvent] = []
    for chunk in [start, *blocks, *([{"type": "message_stop"}] if is_stopped else [])]:
        seen += turn.feed(chunk)
    check_events(turn, seen + turn.close())
