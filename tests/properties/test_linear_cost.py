"""The cost is linear in the input: twice the stream is about twice the work, also for adversarial streams.

Work is counted and never timed: executed lines of streamkit (so every loop in Python counts), characters that the
object scanner reads, and characters that are copied when the parts of a text are joined.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from carried_states import KEY, SETTINGS
from compiled import interpreted_only
from pydantic import BaseModel
from wire_streams import bytes_one_by_one, chat, chat_bytes, chat_call, gemini, message_end, message_start

import streamkit
from streamkit import Content, Growing, Limits, Turn
from streamkit.accumulator.call_builder import ToolCallBuilder
from streamkit.gateway.translation.state_restorer import restore_state
from streamkit.gateway.translation.state_text import UpstreamState, wrap_state
from streamkit.history import ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.json_text import JsonObjectScanner
from streamkit.json_text.reader import IncrementalJsonObject

pytestmark = interpreted_only

PACKAGE = str(Path(streamkit.__file__).parent)
NO_LIMITS = Limits(arguments=2**40, text=2**40, calls=2**40, frame=2**40)


class Work:
    """The counted work of a run."""

    def __init__(self) -> None:
        self.lines = 0
        self.scanned = 0
        self.joined = 0

    def __repr__(self) -> str:
        return f"{self.lines} lines, {self.scanned} characters scanned, {self.joined} characters joined"


@contextmanager
def count_work() -> Iterator[Work]:
    """Count the work of the block."""
    work = Work()

    def trace_line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            work.lines += 1
        return trace_line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        return trace_line if frame.f_code.co_filename.startswith(PACKAGE) else None

    feed, text, object_text = JsonObjectScanner.feed, ToolCallBuilder.text, ToolCallBuilder.object_text

    def counting_feed(scanner: JsonObjectScanner, data: str) -> int:
        work.scanned += len(data)
        return feed(scanner, data)

    def counting_text(call: ToolCallBuilder) -> str:
        if len(call.parts) > 1:
            work.joined += call.size
        return text.fget(call)  # type: ignore[attr-defined, misc]

    def counting_object_text(call: ToolCallBuilder) -> str:
        text: str = object_text.fget(call)  # type: ignore[attr-defined, misc]
        work.joined += len(text)
        return text

    before = sys.gettrace()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JsonObjectScanner, "feed", counting_feed)
        patch.setattr(ToolCallBuilder, "text", property(counting_text))
        patch.setattr(ToolCallBuilder, "object_text", property(counting_object_text))
        sys.settrace(trace)
        try:
            yield work
        finally:
            sys.settrace(before)


def cost(provider: str, inputs: list[Any]) -> Work:
    """Return the work of feeding and closing a turn and reading its calls once."""
    turn = Turn(provider, turn_key="turn-1", limits=NO_LIMITS)
    with count_work() as work:
        for data in inputs:
            turn.feed(data)
        turn.close()
        assert turn.calls is not None
        assert turn.text is not None
    return work


def opened(name: str = "write") -> list[Any]:
    return [chat_call("", id="c0", name=name)]


def plain(n: int) -> list[Any]:
    return [*opened(), chat_call('{"t":"'), *[chat_call("xy")] * n, chat_call('"}')]


def text(n: int) -> list[Any]:
    return [chat({"content": "word "})] * n


def braces(n: int) -> list[Any]:
    return [*opened(), *[chat_call("{")] * n]


def braces_in_a_string(n: int) -> list[Any]:
    return [*opened(), chat_call('{"t":"'), *[chat_call("{")] * n, chat_call('"}')]


def growing_restatements(n: int) -> list[Any]:
    complete = '{"t":"' + "x" * n
    sizes = [2**power for power in range(3, n.bit_length())]
    return [*opened(), *(chat_call(complete[:size]) for size in sizes), *[chat_call("y")] * n]


def name_on_each_delta(n: int) -> list[Any]:
    return [*opened(), chat_call('{"t":"'), *[chat_call("x", name="write")] * n]


def other_name_on_each_delta(n: int) -> list[Any]:
    return [*opened(), chat_call('{"t":"'), *[chat_call("x", name="read")] * n]


def id_on_each_delta(n: int) -> list[Any]:
    return [*opened(), chat_call('{"t":"'), *[chat_call("x", id="c0")] * n]


def new_id_on_each_delta(n: int) -> list[Any]:
    return [*opened(), chat_call('{"t":"'), *(chat_call("x", id=f"n{at}") for at in range(n))]


def name_in_fragments(n: int) -> list[Any]:
    return [chat_call("", id="c0", name="n"), *(chat_call("", name=f"_{at}") for at in range(n)), chat_call("{}")]


def calls_by_index(n: int) -> list[Any]:
    return [chat_call('{"n":1}', index=at, id=f"c{at}", name="count") for at in range(n)]


def calls_without_anything(n: int) -> list[Any]:
    return [chat_call('{"n":1}', index=None, name="count") for _ in range(n)]


def open_calls(n: int) -> list[Any]:
    return [chat_call('{"n":', index=at, id=f"c{at}", name="count") for at in range(n)]


def open_calls_and_unkeyed_deltas(n: int) -> list[Any]:
    return [*open_calls(n // 2), *[chat_call("1", index=None)] * (n // 2)]


def open_calls_and_orphans(n: int) -> list[Any]:
    return [*open_calls(n // 2), *(chat_call("1", index=-1 - at) for at in range(n // 2))]


def orphans(n: int) -> list[Any]:
    return [*open_calls(2), *[chat_call("1", index=9)] * n]


def index_counts_up(n: int) -> list[Any]:
    return [*opened(), chat_call('{"t":"'), *(chat_call("x", index=at + 1) for at in range(n))]


def slot_reuse(n: int) -> list[Any]:
    return [chat_call(f'{{"n":{at}}}', name="count") for at in range(n)]


def slot_reuse_in_deltas(n: int) -> list[Any]:
    return [
        data for at in range(n // 3) for data in (chat_call('{"n":', name="count"), chat_call(f"{at}"), chat_call("}"))
    ]


def placeholders(n: int) -> list[Any]:
    return [*opened(), *[chat_call("{}")] * n]


def equal_objects(n: int) -> list[Any]:
    return [*opened(), *[chat_call('{"n":1}')] * n]


def repeat_by_character(n: int) -> list[Any]:
    complete = '{"t":"' + "x" * n + '"}'
    return [*opened(), chat_call(complete), *(chat_call(letter) for letter in complete)]


def failed_repeat_by_character(n: int) -> list[Any]:
    complete = '{"t":"' + "x" * n
    return [*opened(), chat_call(complete + '"}'), *(chat_call(letter) for letter in complete + "y"), chat_call('"}')]


def call_sent_again_under_its_id(n: int) -> list[Any]:
    return [*opened(), *(chat_call(f'{{"n":{at}}}', id="c0") for at in range(n))]


def text_after_the_object(n: int) -> list[Any]:
    return [*opened(), chat_call('{"n":1}'), *[chat_call(" x")] * n]


def opaque_blocks_and_citations(n: int) -> list[Any]:
    return [
        *[chat({"content": [{"type": "vendor_part", "x": 1}]})] * (n // 2),
        *[chat({"annotations": [{"type": "url_citation"}]})] * (n // 2),
    ]


CHAT = [
    plain,
    text,
    braces,
    braces_in_a_string,
    growing_restatements,
    name_on_each_delta,
    other_name_on_each_delta,
    id_on_each_delta,
    new_id_on_each_delta,
    name_in_fragments,
    calls_by_index,
    calls_without_anything,
    open_calls,
    open_calls_and_unkeyed_deltas,
    open_calls_and_orphans,
    orphans,
    index_counts_up,
    slot_reuse,
    slot_reuse_in_deltas,
    placeholders,
    equal_objects,
    repeat_by_character,
    failed_repeat_by_character,
    call_sent_again_under_its_id,
    text_after_the_object,
    opaque_blocks_and_citations,
]


def anthropic_blocks(n: int) -> list[Any]:
    tool = {"type": "tool_use", "name": "count", "input": {}}
    return [
        message_start(),
        *({"type": "content_block_start", "index": at, "content_block": {**tool, "id": f"t{at}"}} for at in range(n)),
        *message_end("tool_use"),
    ]


def anthropic_opaque_blocks(n: int) -> list[Any]:
    return [
        message_start(),
        *({"type": "content_block_start", "index": at, "content_block": {"type": "vendor"}} for at in range(n)),
        *message_end(),
    ]


def anthropic_pieces(n: int) -> list[Any]:
    start = {"type": "tool_use", "id": "t", "name": "count", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": "{"}
    return [
        message_start(),
        {"type": "content_block_start", "index": 0, "content_block": start},
        *[{"type": "content_block_delta", "index": 0, "delta": delta}] * n,
        *message_end("tool_use"),
    ]


def anthropic_signatures(n: int) -> list[Any]:
    delta = {"type": "signature_delta", "signature": "x"}
    return [
        message_start(),
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        *[{"type": "content_block_delta", "index": 0, "delta": delta}] * n,
        *message_end(),
    ]


def mistral_deltas(deltas: list[Any]) -> list[Any]:
    return [{"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": each}]} for each in deltas]


def mistral_calls_in_one_message(n: int) -> list[Any]:
    calls = [{"index": i, "id": f"c{i}", "function": {"name": "f", "arguments": "{}"}} for i in range(n)]
    metadata = {"metadata": {"integration_id": "i"}}
    return mistral_deltas([{"index": 0, "role": "assistant", "tool_calls": [{**call, **metadata}]} for call in calls])


def mistral_calls_and_results(n: int) -> list[Any]:
    calls = [{"index": i, "id": f"c{i}", "function": {"name": "f", "arguments": "{}"}} for i in range(n)]
    asked = [{"index": 0, "role": "assistant", "tool_calls": [call]} for call in calls]
    results = [{"index": 1 + i, "role": "tool", "tool_call_id": f"c{n - 1 - i}", "content": "r"} for i in range(n)]
    return mistral_deltas([*asked, *results])


def gemini_calls(n: int) -> list[Any]:
    return [*(gemini({"functionCall": {"name": "count", "args": {"n": at}}}) for at in range(n)), gemini(finish="STOP")]


def gemini_open_calls(n: int) -> list[Any]:
    starts = ({"functionCall": {"name": "count", "id": f"c{at}", "willContinue": True}} for at in range(n))
    return [*(gemini(start) for start in starts), gemini(finish="STOP")]


def gemini_fragments(n: int) -> list[Any]:
    data = {"partialArgs": [{"jsonPath": "$.t", "stringValue": "x", "willContinue": True}], "willContinue": True}
    start = {"functionCall": {"name": "write", "willContinue": True}}
    return [gemini(start), *[gemini({"functionCall": data})] * n, gemini({"functionCall": {}}), gemini(finish="STOP")]


OTHERS = [
    ("anthropic", anthropic_blocks),
    ("anthropic", anthropic_opaque_blocks),
    ("anthropic", anthropic_pieces),
    ("anthropic", anthropic_signatures),
    ("mistral", mistral_calls_in_one_message),
    ("mistral", mistral_calls_and_results),
    ("gemini", gemini_calls),
    ("gemini", gemini_open_calls),
    ("gemini", gemini_fragments),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("provider", "stream"),
    [*(("openai_chat", stream) for stream in CHAT), *OTHERS],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_twice_the_deltas_cost_twice_the_work(provider: str, stream: Callable[[int], list[Any]]) -> None:
    small, large = (cost(provider, stream(n)) for n in (300, 600))
    for kind in ("lines", "scanned", "joined"):
        once, twice = getattr(small, kind), getattr(large, kind)
        assert twice <= 2.5 * once + 200, f"{kind}: {small!r}, for twice as many deltas {large!r}"


def test_a_frame_in_single_bytes_costs_linear_work() -> None:
    small, large = (cost("openai_chat", bytes_one_by_one(chat_bytes(text(n)))) for n in (20, 40))
    assert large.lines <= 2.5 * small.lines


def test_plain_streams_are_never_scanned() -> None:
    assert cost("openai_chat", plain(400)).scanned <= 400  # the scan at the end that counts the nesting


def long_string(n: int) -> list[str]:
    return ['{"t":"', *["xy"] * n, '"}']


def escapes(n: int) -> list[str]:
    return ['{"t":"', *["\\n", "\\", '"', "\\u00", "e9", "\ud83d", "\ude00"] * (n // 7), '"}']


def members(n: int) -> list[str]:
    return ["{", *[data for at in range(n // 5) for data in (f'"{at}', '":[', "1", "2.", "5],")], '"z":0}']


def items(n: int) -> list[str]:
    return ['{"l":[', *['"a', '"', ",{", "},"] * (n // 4), "0]}"]


def digits(n: int) -> list[str]:
    return ['{"n":', *["7"] * n]


def nesting(n: int) -> list[str]:
    return ['{"n":'] * n


def junk(n: int) -> list[str]:
    return ['{"n":1}', *['{"n":1}'] * n]


def lines_of_parser(inputs: list[str]) -> int:
    view = IncrementalJsonObject()
    with count_work() as work:
        for data in inputs:
            view.feed(data)
            assert view.value is not None
    return work.lines


def lines_of_turn(inputs: list[str]) -> int:
    turn = Turn("openai_chat", turn_key="turn-1", limits=NO_LIMITS)
    with count_work() as work:
        for data in [*opened(), *(chat_call(data) for data in inputs)]:
            turn.feed(data)
            assert turn.calls[0].partial is not None
    return work.lines


@pytest.mark.slow
@pytest.mark.parametrize("text", [long_string, escapes, members, items, digits, nesting, junk])
@pytest.mark.parametrize("lines", [lines_of_parser, lines_of_turn])
def test_partial_arguments_cost_linear_work(
    text: Callable[[int], list[str]], lines: Callable[[list[str]], int]
) -> None:
    small, large = (lines(text(n)) for n in (700, 1400))
    assert large <= 2.2 * small + 200


class Entry(BaseModel):
    """A type of which the texts of these tests have some fields."""

    t: str = ""
    a: list[int] = []
    n: Entry | None = None


def lines_of_growing(inputs: list[str]) -> int:
    growing = Growing(Entry)
    with count_work() as work:
        for data in inputs:
            growing.feed(data)
            assert growing.value is not None
            assert growing.partial is not None
    return work.lines


@pytest.mark.parametrize("text", [long_string, escapes, members, items, digits, junk])
def test_a_growing_output_costs_linear_work(text: Callable[[int], list[str]]) -> None:
    small, large = (lines_of_growing(text(n)) for n in (700, 1400))
    assert large <= 2.2 * small + 200


def test_prose_around_an_output_costs_linear_work() -> None:
    def lines(n: int) -> int:
        growing = Growing()
        with count_work() as work:
            for data in ["{not json} ", "`", "word ", "[x] "] * n:
                growing.feed(data)
        return work.lines

    assert lines(700) <= 2.2 * lines(350) + 200


def test_finding_the_pieces_of_reasoning_costs_linear_work() -> None:
    """A client of the gateway sends both: the pieces, and the state of a call with the text that they should have."""

    def lines(n: int) -> int:
        origin = {"provider": "anthropic"}
        reasoning = UpstreamState(origin, "reasoning", {"text": "a" * (n - 1) + "b"})
        state = wrap_state(UpstreamState(origin, "call", {"name": "f", "number": 0}, before=(reasoning,)), KEY)
        blocks = [*[ReasoningBlock(text="a")] * n, ReasoningBlock(signature=state)]
        with count_work() as work:
            (content,) = restore_state([Content(speaker="ai", blocks=blocks)], SETTINGS)
        assert [block.text for block in content.blocks if isinstance(block, ReasoningBlock)].count("a") == n
        return work.lines

    lines(1)
    assert lines(400) <= 2.2 * lines(200) + 200


def reasoning_within_text(n: int) -> list[Any]:
    before = tuple(reasoning_state(number, text_length=number) for number in range(n))
    return [TextBlock(text="x" * n), state_of_call(before)]


def reasoning_in_pieces(n: int) -> list[Any]:
    before = tuple(reasoning_state(number) for number in range(n))
    return [*(ReasoningBlock(text=f"<{number}>"[:2]) for number in range(n)), state_of_call(before)]


def reasoning_of_a_message_that_joins_blocks(n: int) -> list[Any]:
    states = [reasoning_state(number, text_length=number, calls=0) for number in range(n)]
    return [*(ReasoningBlock(signature=wrap_state(state, KEY)) for state in states), TextBlock(text="x" * n)]


def one_state_many_times(n: int) -> list[Any]:
    return [state_of_call((reasoning_state(0, text_length=1),)), TextBlock(text="xyz")] * n


def reasoning_state(number: int, **fields: int) -> UpstreamState:
    return UpstreamState({"provider": "gemini"}, "reasoning", {"text": f"<{number}>", **fields})


def state_of_call(before: tuple[UpstreamState, ...]) -> ToolCallBlock:
    state = UpstreamState({"provider": "gemini"}, "call", {"name": "f", "number": 0}, {}, before)
    return ToolCallBlock(id="x", name="f", metadata={"thoughtSignature": wrap_state(state, KEY)})


@pytest.mark.parametrize(
    "blocks",
    [reasoning_within_text, reasoning_in_pieces, reasoning_of_a_message_that_joins_blocks, one_state_many_times],
)
def test_restoring_carried_state_costs_linear_work(blocks: Callable[[int], list[Any]]) -> None:
    """98 kB of one call's state, signed or not, took 6.9 s: each of its blocks was looked for among all others."""

    def lines(n: int) -> int:
        contents = [Content(speaker="ai", blocks=blocks(n))]
        with count_work() as work:
            restore_state(contents, SETTINGS)
        return work.lines

    lines(1)
    assert lines(400) <= 2.2 * lines(200) + 200


def test_the_incremental_parser_joins_each_character_once() -> None:
    view = IncrementalJsonObject()
    for data in ['{"t":"', *["xy"] * 500]:
        view.feed(data)
    assert sum(map(len, view._parts)) == 1000
    assert view.value == {"t": "xy" * 500}
    assert view._parts == []


def test_partial_arguments_are_parsed_only_when_read(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[str] = []
    monkeypatch.setattr(IncrementalJsonObject, "feed", lambda _, text: fed.append(text))
    turn = Turn("openai_chat", turn_key="turn-1")
    for data in [*plain(50), chat({}, finish="tool_calls")]:
        turn.feed(data)
    turn.close()
    assert turn.calls[0].partial == {"t": "xy" * 50}
    assert fed == []
