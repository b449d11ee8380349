"""Writers: order, what is held back and for how long, what is left out, and that no event makes them fail."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties.test_linear_cost import count_work

import streamkit
from streamkit import Event, Turn, Usage, providers
from streamkit.calls import CallRef, StreamError, ToolCall
from streamkit.events import (
    ArgumentsRestated,
    BlockEnded,
    BlockStarted,
    Compaction,
    Failed,
    File,
    Finished,
    LogProbabilities,
    Reasoning,
    Refusal,
    ResponseStarted,
    RoundStarted,
    ServerTool,
    Text,
    TokenLogProbability,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
    ToolEvent,
    Unknown,
    UsageReport,
    Warned,
)
from streamkit.events.citations import citation_events
from streamkit.json_text import finalize_arguments
from streamkit.providers import Writer
from streamkit.providers.writing.writer import EVENT_ROWS

#: One provider of each wire, and the dialects whose streams have another form.
TARGETS = (
    *("anthropic", "openai_chat", "openai_responses", "gemini", "cohere", "ollama"),
    *("bedrock_converse", "bedrock_invoke", "mistral", "openrouter", "perplexity", "groq", "azure_openai"),
)
INTERLEAVED = ("openai_chat", "openai_responses", "openrouter")
SEQUENTIAL = ("anthropic", "cohere", "bedrock_converse", "bedrock_invoke")
WHOLE = ("gemini", "ollama", "mistral")


def new_writer(target: str, **options: Any) -> Writer:
    return streamkit.writer(target, response_id="resp_1", model="m", **options)


def read(target: str, *parts: bytes) -> Turn:
    turn = Turn(target, "k")
    for part in parts:
        if part:
            turn.feed(part)
    turn.close()
    return turn


def write(target: str, events: Iterable[Event]) -> tuple[Turn, Writer]:
    live = new_writer(target)
    return read(target, *[live.write(event) for event in events], live.close()), live


def ref(number: int, name: str = "f", kind: Any = "function") -> CallRef:
    return CallRef(f"hist_tool_{number:024d}", name, number, kind)


def ready(call: CallRef, text: str, state: Any = None, **fields: Any) -> ToolCallReady:
    """Return the event of a call in its final state, by default the state of the text."""
    parsed = finalize_arguments(text)
    state = state or parsed.state
    arguments = text if call.kind == "custom" else parsed.arguments
    return ToolCallReady(
        ToolCall(
            id=call.id,
            name=call.name,
            index=call.index,
            kind=call.kind,
            state=state,
            arguments=arguments if state == "complete" else None,
            arguments_text=text,
            **fields,
        )
    )


def whole_call(number: int, text: str, **options: Any) -> list[Event]:
    call = ref(number, **options)
    return [ToolCallStart(call), ToolCallDelta(call, text), ToolCallEnd(call), ready(call, text)]


def arguments(turn: Turn) -> list[Any]:
    return [call.arguments for call in turn.calls]


# ---------------------------------------------------------------- order: interleaved calls

VALUES = st.dictionaries(
    st.sampled_from(["a", "b", "ü"]),
    st.text(max_size=6) | st.integers() | st.just({}) | st.just([{"x": "}{"}]),
    max_size=3,
)


@st.composite
def interleavings(draw: Any) -> tuple[list[dict[str, Any]], list[Event]]:
    """Draw calls and an order of their events, as parallel calls of one stream may have it."""
    values = draw(st.lists(VALUES, min_size=1, max_size=4))
    queues: list[list[Event]] = []
    for number, value in enumerate(values):
        call, text = ref(number), json.dumps(value, ensure_ascii=draw(st.booleans()))
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
        parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        has_end = draw(st.booleans())
        queue: list[Event] = [ToolCallStart(call), *(ToolCallDelta(call, part) for part in parts if part)]
        queues.append([*queue, *([ToolCallEnd(call), ready(call, text)] if has_end else [])])
    events: list[Event] = [ResponseStarted("r", "m")]
    started = 0
    while any(queues):
        # the next call starts at any time; one that has started continues at any time
        can = [number for number, queue in enumerate(queues) if queue and number <= started]
        number = draw(st.sampled_from(can))
        started = max(started, number + 1)
        events.append(queues[number].pop(0))
    done = {event.call.id for event in events if isinstance(event, ToolCallReady)}
    for number, value in enumerate(values):
        text = "".join(e.arguments_delta for e in events if isinstance(e, ToolCallDelta) and e.call.index == number)
        if ref(number).id not in done:
            events += [ToolCallEnd(ref(number)), ready(ref(number), text)]
        assert json.loads(text) == value
    return values, [*events, Finished("tool_calls")]


@given(interleavings(), st.sampled_from(TARGETS))
def test_interleaved_calls_are_the_same_calls_on_every_wire(
    drawn: tuple[list[dict[str, Any]], list[Event]], target: str
) -> None:
    values, events = drawn
    turn, live = write(target, events)
    assert turn.error is None
    assert arguments(turn) == values
    assert [call.state for call in turn.calls] == ["complete"] * len(values)
    assert len({call.raw_id for call in turn.calls}) == len(values)
    assert "changed_call" not in live.omitted


@given(interleavings(), st.sampled_from(SEQUENTIAL + INTERLEAVED))
def test_a_delta_waits_only_for_the_call_before_it(
    drawn: tuple[list[dict[str, Any]], list[Event]], target: str
) -> None:
    """After every event the client has all that the wire can express: counted in characters, by a model of the rule."""
    _, events = drawn
    live, turn = new_writer(target), Turn(target, "k")
    texts: dict[int, str] = {}
    is_over: set[int] = set()
    finished: set[int] = set()
    held: set[int] = set()
    for event in events:
        if data := live.write(event):
            turn.feed(data)
        if isinstance(event, ToolCallStart):
            texts[event.call.index] = ""
        elif isinstance(event, ToolCallDelta):
            texts[event.call.index] += event.arguments_delta
            if event.arguments_delta == "{}":
                held.add(event.call.index)  # it may be a placeholder
        elif isinstance(event, ToolCallEnd):
            is_over.add(event.call.index)
        elif isinstance(event, ToolCallReady):
            finished.add(event.call.index)
        is_over |= {number for number, text in texts.items() if number not in held and _is_object(text)}
        for number, text in sorted(texts.items()):
            shown = turn.calls[number].arguments_text if number < len(turn.calls) else None
            expected = "" if number in held and number not in finished else text
            if target in INTERLEAVED or all(before in is_over | finished for before in range(number)):
                assert shown is not None
                assert shown in (expected, text)
                assert len(shown) >= len(expected)
            else:
                assert shown is None


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


@pytest.mark.parametrize("target", SEQUENTIAL)
def test_the_next_call_is_written_as_soon_as_the_one_before_it_is_complete(target: str) -> None:
    first, second = ref(0), ref(1)
    live, turn = new_writer(target), Turn(target, "k")
    for event in [ToolCallStart(first), ToolCallDelta(first, '{"a":'), ToolCallStart(second)]:
        if data := live.write(event):
            turn.feed(data)
    assert live.write(ToolCallDelta(second, '{"b":')) == b""
    turn.feed(live.write(ToolCallDelta(first, "1}")))
    assert [call.arguments_text for call in turn.calls] == ['{"a":1}', '{"b":']


@pytest.mark.parametrize("target", SEQUENTIAL)
def test_a_text_after_an_open_call_waits_for_the_call(target: str) -> None:
    call = ref(0)
    live = new_writer(target)
    turn = Turn(target, "k")
    for event in [Text("a"), BlockEnded("text"), ToolCallStart(call), ToolCallDelta(call, '{"a":')]:
        if data := live.write(event):
            turn.feed(data)
    assert live.write(Text("b")) == b""
    turn.feed(live.write(ToolCallDelta(call, "1}")))
    assert turn.text == "ab"
    turn.feed(live.write(ready(call, '{"a":1}')) + live.write(Finished("tool_calls")) + live.close())
    turn.close()
    assert [block.type for block in turn.content.blocks] == ["text", "tool_call", "text"]
    assert arguments(turn) == [{"a": 1}]


@pytest.mark.parametrize("target", WHOLE)
def test_complete_calls_keep_their_order_and_come_with_their_final_state(target: str) -> None:
    first, second = ref(0, "one"), ref(1, "two")
    live = new_writer(target)
    live.write(ResponseStarted("r", "m"))
    events = [ToolCallStart(first), ToolCallStart(second), ToolCallDelta(second, "{}"), ToolCallDelta(first, '{"a":1}')]
    assert [live.write(event) for event in events] == [b""] * 4
    assert live.write(ready(second, "{}")) == b""
    data = live.write(ready(first, '{"a":1}'))
    assert data.index(b"one") < data.index(b"two")


# ---------------------------------------------------------------- arguments that change


@pytest.mark.parametrize("target", TARGETS)
def test_a_placeholder_is_never_sent_as_the_arguments(target: str) -> None:
    call = ref(0)
    text = '{"q":"B"}'
    restated = [ToolCallDelta(call, text), ArgumentsRestated(call, text)]
    turn, live = write(
        target, [ToolCallStart(call), ToolCallDelta(call, "{}"), *restated, ready(call, text), Finished("tool_calls")]
    )
    assert (arguments(turn), turn.error) == ([{"q": "B"}], None)
    assert "changed_call" not in live.omitted


@pytest.mark.parametrize("target", TARGETS)
def test_a_repeat_of_the_arguments_is_not_sent(target: str) -> None:
    call = ref(0)
    text = '{"q":"B"}'
    deltas = [ToolCallDelta(call, text), ToolCallDelta(call, text[:3]), ToolCallDelta(call, text[3:])]
    turn, _ = write(
        target,
        [ToolCallStart(call), *deltas, ArgumentsRestated(call, text), ready(call, text), Finished("tool_calls")],
    )
    assert arguments(turn) == [{"q": "B"}]
    assert turn.warnings == []


@pytest.mark.parametrize("target", TARGETS)
def test_two_objects_in_one_call_stay_one_invalid_call(target: str) -> None:
    call = ref(0)
    events = [ToolCallStart(call), ToolCallDelta(call, '{"a":1}'), ToolCallDelta(call, '{"a":2}'), ToolCallEnd(call)]
    turn, live = write(target, [*events, ready(call, '{"a":1}{"a":2}', "invalid"), Finished("tool_calls")])
    if target in ("gemini", "ollama"):
        assert (turn.calls, list(live.omitted)) == ([], ["incomplete_call"])
    else:
        assert turn.executable == []
        assert turn.error is not None or [call.state for call in turn.calls] == ["invalid"]


@pytest.mark.parametrize("form", ["before the next call", "restated", "after a text that is no JSON"])
@pytest.mark.parametrize("target", TARGETS)
def test_of_two_objects_in_one_call_none_becomes_a_call(target: str, form: str) -> None:
    call, other = ref(0), ref(1)
    first, second = ('{""}' if form == "after a text that is no JSON" else '{"a":1}'), '{"a":2}'
    events: list[Event] = [ToolCallStart(call), ToolCallDelta(call, first), ToolCallDelta(call, second)]
    if form == "restated":
        events += [ArgumentsRestated(call, first + second)]
    events += [ToolCallEnd(call), ToolCallStart(other), ToolCallDelta(other, "{}"), ToolCallEnd(other)]
    events += [ready(call, first + second, "invalid"), ready(other, "{}"), Finished("tool_calls")]
    turn, _ = write(target, events)
    assert turn.error is not None or [call.arguments for call in turn.executable] == [{}]


@pytest.mark.parametrize("target", TARGETS)
def test_a_placeholder_and_a_repeat_are_held_while_another_call_begins(target: str) -> None:
    call, other, text = ref(0), ref(1), '{"a":1}'
    events: list[Event] = [ToolCallStart(call), ToolCallDelta(call, text), ToolCallDelta(call, text), ToolCallEnd(call)]
    events += [ToolCallStart(other), ToolCallDelta(other, "{}"), ToolCallEnd(other), ArgumentsRestated(call, text)]
    turn, live = write(target, [*events, ready(call, text), ready(other, "{}"), Finished("tool_calls")])
    assert (arguments(turn), turn.error) == ([{"a": 1}, {}], None)
    assert "changed_call" not in live.omitted


@pytest.mark.parametrize("target", TARGETS)
def test_a_call_whose_restated_arguments_were_cut_does_not_run(target: str) -> None:
    call = ref(0)
    events = [ToolCallStart(call), ToolCallDelta(call, '{"a":1}'), ArgumentsRestated(call, "{"), ToolCallEnd(call)]
    turn, live = write(target, [*events, ready(call, "{", "incomplete"), Finished("tool_calls")])
    assert turn.executable == []
    # Wires that wait for the whole call write what there is of it, or leave it out.
    assert "changed_call" in live.omitted or [each.state for each in turn.calls] in ([], ["incomplete"])


@pytest.mark.parametrize("target", TARGETS)
def test_other_arguments_after_complete_ones_end_the_stream_with_an_error(target: str) -> None:
    call = ref(0)
    events = [ToolCallStart(call), ToolCallDelta(call, '{"a":1}'), ArgumentsRestated(call, '{"a":2}')]
    turn, live = write(target, [*events, ready(call, '{"a":2}'), Finished("tool_calls")])
    if target in (*WHOLE, "openai_responses", "groq"):
        assert (arguments(turn), turn.error, live.omitted) == ([{"a": 2}], None, {})
    else:
        assert turn.executable == []
        assert turn.error is not None
        assert turn.error.message == "the arguments of the call 'f' changed after they were sent"
        assert list(live.omitted) == ["changed_call"]


@pytest.mark.parametrize("target", [*SEQUENTIAL, "openai_chat", "openrouter"])
def test_a_call_that_changes_after_the_next_one_began_ends_the_stream_with_an_error(target: str) -> None:
    first = ref(0)
    events = [ToolCallStart(first), ToolCallDelta(first, '{"a":1}'), *whole_call(1, '{"b":1}')]
    late = [ToolCallDelta(first, '{"a":2}'), ready(first, '{"a":1}{"a":2}', "invalid"), Finished("tool_calls")]
    turn, live = write(target, [*events, *late])
    assert turn.executable == []
    assert turn.error is not None
    assert "changed_call" in live.omitted


# ---------------------------------------------------------------- calls that are not complete


@pytest.mark.parametrize("target", TARGETS)
def test_an_incomplete_call_without_arguments_before_another_call_is_no_complete_call(target: str) -> None:
    call, other = ref(0), ref(1)
    starts = [ToolCallStart(call), ToolCallStart(other), ToolCallDelta(other, "{}")]
    ends = [ToolCallEnd(call), ToolCallEnd(other), ready(call, "", "incomplete"), ready(other, "{}")]
    turn, _ = write(target, [*starts, *ends, Finished("length")])
    assert len(turn.executable) <= (turn.error is None), "only the other call"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "end", [[Finished("length")], [Failed(StreamError("provider_error", "boom"))], [Finished("tool_calls")], []]
)
def test_an_incomplete_call_never_becomes_complete(target: str, end: list[Event]) -> None:
    call = ref(1)
    events = [Text("Hi"), *whole_call(0, '{"x":1}'), ToolCallStart(call)]
    for text in ("", "{", '{"a":"b', '{"a":1'):
        deltas = [ToolCallDelta(call, text)] if text else []
        turn, live = write(target, [*events, *deltas, ToolCallEnd(call), ready(call, text, "incomplete"), *end])
        states = [found.state for found in turn.calls]
        if target in ("gemini", "ollama"):
            assert states == ["complete"], text
            assert "incomplete_call" in live.omitted
        else:
            assert states == ["complete", "incomplete"], text
        assert turn.text == "Hi", text


@pytest.mark.parametrize("target", TARGETS)
def test_a_call_without_its_final_state_is_incomplete(target: str) -> None:
    """The caller closed the writer before the turn: without a finish the stream ends with an error."""
    call = ref(0)
    turn, _ = write(target, [ToolCallStart(call), ToolCallDelta(call, '{"a":1')])
    assert [found.state for found in turn.calls] in ([], ["incomplete"])
    assert turn.error is not None
    assert turn.error.message == "the stream ended before the response was complete"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("text", "state"), [('ls -l\n"ü" \\', "complete"), ("ls", "incomplete"), ("", "incomplete")])
def test_a_custom_call_is_one_text_in_an_object_where_the_wire_has_none(target: str, text: str, state: Any) -> None:
    call = ref(0, "sh", "custom")
    parts = [ToolCallDelta(call, letter) for letter in text]
    finish = Finished("tool_calls" if state == "complete" else "length")
    turn, _ = write(target, [ToolCallStart(call), *parts, ToolCallEnd(call), ready(call, text, state), finish])
    if target in ("gemini", "ollama") and state == "incomplete":
        assert turn.calls == []
        return
    (found,) = turn.calls
    assert found.state == state
    if found.kind == "function" and state == "complete":
        assert found.arguments == {"input": text}
    elif state == "complete":
        assert found.arguments == text


# ---------------------------------------------------------------- ends


@pytest.mark.parametrize("target", TARGETS)
def test_close_ends_the_stream_once_and_nothing_is_written_after_it(target: str) -> None:
    live = new_writer(target)
    data = live.write(Text("a")) + live.write(Finished("stop")) + live.write(Text("b"))
    end = live.close()
    assert end
    assert (live.close(), live.write(Text("c")), live.write(Finished("stop"))) == (b"", b"", b"")
    turn = read(target, data, end)
    assert (turn.text, turn.error) == ("ab", None)
    assert turn.finish is not None
    assert turn.finish.reason == "stop"


@pytest.mark.parametrize("target", TARGETS)
def test_an_error_is_written_in_the_form_of_the_wire_after_what_came_before_it(target: str) -> None:
    error = StreamError("provider_error", "Slow down.", code="rate_limited")
    turn, _ = write(target, [Text("a"), Failed(error), *whole_call(0, '{"a":1}')])
    assert turn.text == "a"
    assert arguments(turn) == [{"a": 1}]
    assert turn.executable == []
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message) == ("provider_error", "Slow down.")
    if target not in ("cohere", "ollama"):  # their errors are a text
        assert turn.error.code == "rate_limited"


@pytest.mark.parametrize("target", TARGETS)
def test_the_first_byte_comes_with_the_first_event(target: str) -> None:
    live = new_writer(target)
    started = live.write(ResponseStarted("r", "m"))
    assert started or target in ("gemini", "ollama")  # they have no event without content
    assert live.write(Text("a"))


def test_the_names_of_the_events_are_used_if_none_are_given() -> None:
    live = streamkit.writer("openai_chat")
    data = live.write(ResponseStarted("upstream-1", "big")) + live.write(Finished("stop")) + live.close()
    turn = read("openai_chat", data)
    assert (turn.response_id, turn.model) == ("upstream-1", "big")


def test_events_of_another_choice_are_left_out() -> None:
    turn, live = write("anthropic", [Text("a"), Text("b", choice=1), Finished("stop"), Finished("length", None, 1)])
    assert (turn.text, list(live.omitted)) == ("a", ["other_choice"])
    assert turn.finish is not None
    assert turn.finish.reason == "stop"


def test_a_finish_that_the_target_has_itself_keeps_its_name() -> None:
    turn, _ = write("anthropic", [Text("a"), Finished("stop", "stop_sequence")])
    assert turn.finish is not None
    assert turn.finish.raw == "stop_sequence"


# ---------------------------------------------------------------- state, citations, server tools, files


def test_signatures_are_written_where_the_wire_has_them() -> None:
    thought = [Reasoning("Hm"), BlockEnded("reasoning", signature="SIG")]
    events = [*thought, Text("a"), BlockEnded("text"), Finished("stop")]
    for target in ("anthropic", "bedrock_converse", "mistral"):
        turn, live = write(target, events)
        assert turn.content.blocks[0].signature == "SIG", target
        assert live.omitted == {}
    turn, _ = write("openai_responses", events)
    assert turn.content.blocks[0].opaque["encrypted_content"] == "SIG"
    for target in ("cohere", "ollama", "openrouter"):
        assert list(write(target, events)[1].omitted) == ["block_state"], target


def test_a_thought_signature_is_written_with_its_call_on_gemini_and_reported_elsewhere() -> None:
    call = ref(0)
    events = [ToolCallStart(call), ready(call, "{}", metadata={"thoughtSignature": "U2ln"}), Finished("tool_calls")]
    turn, live = write("gemini", events)
    assert (turn.calls[0].metadata, live.omitted) == ({"thoughtSignature": "U2ln"}, {})
    assert list(write("anthropic", events)[1].omitted) == ["call_state"]


CITATIONS = [
    {"type": "web_search_result_location", "url": "https://a/", "title": "A", "cited_text": "x", "encrypted_index": ""},
    {"type": "url_citation", "url": "https://a/", "title": "A", "start_index": 0, "end_index": 1},
    {"type": "url_citation", "url_citation": {"url": "https://a/", "title": "A"}},
    {"groundingChunks": [{"web": {"uri": "https://a/", "title": "A"}}]},
    {"title": "A", "location": {"web": {"url": "https://a/"}}},
    "https://a/",
]


@pytest.mark.parametrize("citation", CITATIONS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_citation_with_an_address_is_written_in_the_form_of_the_wire(target: str, citation: Any) -> None:
    turn, live = write(target, [Text("a"), *citation_events(citation), BlockEnded("text"), Finished("stop")])
    if target in ("ollama", "mistral"):
        assert list(live.omitted) == ["citation"]
    else:
        written = json.dumps(turn.content.blocks[0].metadata["citations"])
        assert "https://a/" in written
        assert live.omitted == {}


def test_a_citation_without_an_address_is_left_out_elsewhere() -> None:
    citation = {"start": 0, "end": 1, "text": "a", "sources": [{"type": "tool", "id": "t"}]}
    for target in ("anthropic", "openai_chat", "openai_responses", "gemini", "bedrock_converse"):
        turn, live = write(target, [Text("a"), *citation_events(citation), BlockEnded("text"), Finished("stop")])
        assert list(live.omitted) == ["citation"], target
        assert "citations" not in turn.content.blocks[0].metadata


SERVER_TOOL = [
    ServerTool("s1", "search", "started"),
    ServerTool("s1", "search", "arguments", '{"q":'),
    ServerTool("s1", "search", "arguments", '"x"}'),
    ServerTool("s1", "search", "arguments", {"q": "x"}),
    ServerTool("s1", "search", "result", {"hits": 1}),
]


@pytest.mark.parametrize("target", TARGETS)
def test_a_server_tool_is_written_once_with_arguments_and_result(target: str) -> None:
    turn, live = write(target, [*SERVER_TOOL, Text("a"), Finished("stop")])
    if target in ("cohere", "ollama", "openai_chat", "mistral", "openrouter", "perplexity", "groq", "azure_openai"):
        assert list(live.omitted) == ["server_tool"]
        assert turn.server_calls == []
        return
    (call,) = turn.server_calls
    assert (call.name, call.arguments) == ("search", {"q": "x"})
    assert "hits" in json.dumps(call.result)
    assert turn.text == "a"


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_is_written_where_the_wire_has_images(target: str) -> None:
    turn, live = write(target, [File("image/png", "aGk="), Text("a"), Finished("stop")])
    files = [block for block in turn.content.blocks if block.type == "file"]
    if "file" in live.omitted:
        assert (target in ("anthropic", "cohere", "bedrock_invoke"), files) == (True, [])
    else:
        assert [file.data for file in files] == ["aGk="]


# ---------------------------------------------------------------- events of any content

ODD_TEXT = st.text(st.characters(exclude_categories=[]), max_size=6)
HUGE = st.builds(lambda: 10**5000)  # more digits than Python converts to text
ODD = st.recursive(
    st.none() | st.booleans() | st.floats() | ODD_TEXT | st.integers() | HUGE | st.just(object()),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(ODD_TEXT | st.integers(), inner, max_size=2),
    max_leaves=4,
)
REFS = st.builds(CallRef, ODD_TEXT, ODD_TEXT, st.integers(0, 3), st.sampled_from(["function", "custom"]))
CHOICE, BLOCK = st.integers(0, 1), st.integers(0, 2)
KINDS = st.sampled_from(["text", "reasoning", "refusal"])
METADATA = st.dictionaries(ODD_TEXT | st.sampled_from(["opaque", "thoughtSignature", "item", "audio"]), ODD, max_size=2)
ODD_EVENTS = st.one_of(
    st.builds(ResponseStarted, ODD_TEXT, ODD_TEXT),
    st.builds(BlockStarted, KINDS, BLOCK, CHOICE),
    st.builds(Text, ODD_TEXT, BLOCK, CHOICE),
    st.builds(Reasoning, ODD_TEXT, st.sampled_from(["text", "summary", "plan"]), BLOCK, CHOICE),
    st.builds(Refusal, ODD_TEXT, BLOCK, CHOICE),
    st.builds(BlockEnded, KINDS, BLOCK, st.none() | ODD_TEXT, METADATA, CHOICE),
    st.builds(ToolCallStart, REFS, CHOICE),
    st.builds(ToolCallDelta, REFS, ODD_TEXT, CHOICE),
    st.builds(ToolCallEnd, REFS, CHOICE),
    st.builds(ArgumentsRestated, REFS, ODD_TEXT, CHOICE),
    st.builds(
        lambda call, text, arguments, state, metadata: ToolCallReady(
            ToolCall(
                id=call.id,
                name=call.name,
                index=call.index,
                kind=call.kind,
                arguments=arguments,
                arguments_text=text,
                state=state,
                metadata=metadata,
            )
        ),
        REFS,
        ODD_TEXT,
        ODD,
        st.sampled_from(["complete", "incomplete", "invalid"]),
        METADATA,
    ),
    st.builds(ServerTool, st.none() | ODD_TEXT, ODD_TEXT, st.sampled_from(["started", "arguments", "result"]), ODD),
    st.builds(lambda data: citation_events(data)[0], ODD),
    st.builds(Compaction, st.none() | ODD_TEXT, ODD),
    st.builds(File, st.none() | ODD_TEXT | st.just("image/png"), st.none() | ODD_TEXT, st.none() | ODD_TEXT),
    st.builds(UsageReport, st.builds(Usage, st.none() | st.integers(), st.none() | HUGE)),
    st.builds(Finished, st.sampled_from(["stop", "length", "error", "other"]), st.none() | ODD_TEXT | st.integers()),
    st.builds(Failed, st.builds(StreamError, st.just("provider_error"), ODD_TEXT, st.none(), ODD)),
    st.builds(Unknown, ODD),
    st.just(Warned("code", "message")),
    st.just(RoundStarted(0)),
)


@given(st.lists(ODD_EVENTS, max_size=8), st.sampled_from(TARGETS), st.booleans())
def test_no_event_makes_a_writer_raise_and_every_frame_can_be_read(
    events: list[Event], target: str, stream: bool
) -> None:
    live = new_writer(target, stream=stream)
    parts = [live.write(event) for event in events]
    parts.append(live.close())
    turn = read(target, *parts)
    assert turn.error is None or turn.error.kind != "protocol_error"
    if not stream:
        assert parts[:-1] == [b""] * len(events)
        json.loads(parts[-1])


# ---------------------------------------------------------------- bodies


@given(interleavings(), st.sampled_from(TARGETS), st.booleans(), st.booleans())
def test_a_body_is_the_same_turn_as_the_stream(
    drawn: tuple[list[dict[str, Any]], list[Event]], target: str, reasons: bool, refuses: bool
) -> None:
    _, calls = drawn
    before: list[Event] = [Reasoning("H"), Reasoning("m"), BlockEnded("reasoning", signature="S")] if reasons else []
    texts: list[Event] = [Text("a"), Text("ü"), *citation_events(CITATIONS[0]), BlockEnded("text")]
    refusal: list[Event] = [Refusal("No"), BlockEnded("refusal")] if refuses else []
    report = UsageReport(Usage(30, 12, 4, 8, 2))
    events = [calls[0], *before, *texts, *refusal, *SERVER_TOOL, File("image/png", "aGk="), *calls[1:], report]
    streamed, _ = write(target, events)
    live = new_writer(target, stream=False)
    assert [live.write(event) for event in events] == [b""] * len(events)
    whole = read(target, live.close())
    names = ("text", "reasoning", "refusal", "finish", "server_calls")
    assert {name: whole.to_dict()[name] for name in names} == {name: streamed.to_dict()[name] for name in names}
    assert arguments(whole) == arguments(streamed)
    figures = Usage.__struct_fields__[:5]
    assert [getattr(whole.usage, name) for name in figures] == [getattr(streamed.usage, name) for name in figures]
    kinds = [sorted(block.type for block in turn.content.blocks) for turn in (whole, streamed)]
    assert kinds[0] == kinds[1]  # a body of some wires has a list for each kind


@pytest.mark.parametrize("target", TARGETS)
def test_the_body_of_a_failed_response_is_the_wires_error(target: str) -> None:
    live = new_writer(target, stream=False)
    live.write(Text("a"))
    live.write(Failed(StreamError("provider_error", "Slow down.", code="rate_limited")))
    body = json.loads(live.close())
    turn = Turn(target, "k")
    turn.response(429)
    turn.feed(json.dumps(body).encode())
    turn.close()
    assert turn.error is not None
    assert (turn.error.message, turn.error.code) == ("Slow down.", "rate_limited")


# ---------------------------------------------------------------- cost


def long_stream(size: int) -> list[Event]:
    """Return a stream with many deltas of every kind, two open calls among them, and much text after braces."""
    first, second = ref(0), ref(1)
    events: list[Event] = [ResponseStarted("r", "m"), *[Reasoning("hm")] * size, BlockEnded("reasoning", signature="S")]
    events += [*[Text("word ")] * size, BlockEnded("text"), ToolCallStart(first), ToolCallDelta(first, '{"a":"')]
    events += [event for _ in range(size) for event in (ToolCallDelta(first, "}"), ToolCallDelta(first, "{x"))]
    events += [ToolCallStart(second), ToolCallDelta(second, '{"b":"')]
    events += [event for _ in range(size) for event in (ToolCallDelta(second, "{y"), ToolCallDelta(first, "z"))]
    texts = {0: '{"a":"' + "}{x" * size + "z" * size + '"}', 1: '{"b":"' + "{y" * size + '"}'}
    events += [ToolCallDelta(first, '"}'), ToolCallDelta(second, '"}')]
    return [*events, ready(first, texts[0]), ready(second, texts[1]), Finished("tool_calls")]


@pytest.mark.parametrize("target", TARGETS)
def test_the_work_is_linear_in_the_events(target: str) -> None:
    costs = []
    for size in (100, 200):
        events = long_stream(size)
        live = new_writer(target)
        with count_work() as work:
            written = sum(len(live.write(event)) for event in events) + len(live.close())
        costs.append((work.lines, work.scanned, written))
    for small, large in zip(*costs, strict=True):
        assert large < 2.2 * small + 500


@pytest.mark.parametrize("target", TARGETS)
def test_a_writer_imports_no_pydantic_and_every_provider_has_one(target: str) -> None:
    assert isinstance(providers.get(target).writer(), Writer)


# ---------------------------------------------------------------- the table of events


def test_every_event_has_a_row() -> None:
    assert set(EVENT_ROWS) == set(get_args(Event))
    left_out = {kind for kind, row in EVENT_ROWS.items() if row is None}
    assert left_out == {Warned, *get_args(ToolEvent)}


def test_an_event_without_a_row_is_left_out_with_a_sentence() -> None:
    class NewEvent(Text, frozen=True, tag="new_event"):
        type: ClassVar[Any] = "new_event"

    live = new_writer("anthropic")
    assert live.write(NewEvent("a")) == b""
    assert live.omitted == {"unknown": "an event of the type 'new_event' was left out: no writer handles it"}


def test_what_is_not_part_of_a_response_needs_no_sentence() -> None:
    live = new_writer("anthropic")
    assert live.write(Warned("slot_reused", "m")) + live.write(RoundStarted(0)) == b""
    assert live.omitted == {}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("provider", ["anthropic", None], ids=["of the same wire", "of another wire"])
def test_log_probabilities_are_written_or_left_out_with_a_sentence(target: str, provider: str | None) -> None:
    live = new_writer(target)
    live.write(ResponseStarted("r", "m", provider=provider and target))
    live.write(Text("a"))  # some wires have them after their text, others before it
    tokens = [{"token": "a", "logprob": -0.5}]
    raw = tokens if target == "openai_responses" else {"content": tokens}
    written = live.write(LogProbabilities((TokenLogProbability("a", -0.5),), raw)) + live.write(Text("b"))
    assert (b"-0.5" in written + live.close()) is ("log_probabilities" not in live.omitted)


class Delta(str):
    """A text that must not be copied with what was before it."""

    def __radd__(self, before: str) -> str:
        raise AssertionError("copied")

    __add__ = __radd__


def as_deltas(value: Any) -> Any:
    """Return the chunks of a stream with such texts."""
    if isinstance(value, dict):
        return {name: as_deltas(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_deltas(each) for each in value]
    return Delta(value) if isinstance(value, str) and value in ("part of a text", "part of a thought") else value


@pytest.mark.parametrize("target", TARGETS)
def test_a_body_joins_its_deltas_once(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 5,000 deltas copied what was before it: 12 GB for a body of 5 MB."""
    live = new_writer(target, stream=False)
    body = live.body
    monkeypatch.setattr(live, "body", lambda chunks: body(as_deltas(chunks)))
    call, text = ref(0), '{"a": "part of a text"}'
    events = [*[Reasoning("part of a thought")] * 4, *[Text("part of a text")] * 4, ToolCallStart(call)]
    events += [
        *(ToolCallDelta(call, part) for part in (text[:7], text[7:-2], text[-2:])),
        ToolCallEnd(call),
        ready(call, text),
        Finished("tool_calls"),
    ]
    written = b"".join(map(live.write, [ResponseStarted("r", "m"), *events])) + live.close()
    turn = Turn(target)
    turn.feed(written)
    turn.close()
    assert turn.text == "part of a text" * 4
    assert arguments(turn) == [{"a": "part of a text"}]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("is_same_wire", [False, True])
def test_long_facts_about_a_response_do_not_multiply_it(target: str, is_same_wire: bool) -> None:
    """A name of 1 MB, repeated in each of 300 chunks, made a stream of 300 MB."""
    names = ("created", "service_tier", "system_fingerprint", "provider", "createTime", "modelStatus", "created_at")
    facts = dict.fromkeys(names, "f" * 100_000) if is_same_wire else {}
    writer = streamkit.writer(target)
    provider = target if is_same_wire else "third"
    writer.write(ResponseStarted("i" * 100_000, "m" * 100_000, provider=provider, metadata=facts))
    deltas = [writer.write(Text("x", block=0)) for _ in range(50)]
    assert max(map(len, deltas)) < 10_000
