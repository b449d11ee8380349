"""Limits bound memory: a stream that makes a turn keep more and more, of any one kind of thing, ends the turn.

Each stream here has no end. What is held is measured with ``tracemalloc``; the bounds are ten bytes for a character of
the limit, and leave room for the objects of the turn itself.
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import pytest

from streamkit import Limits, Turn, providers
from streamkit.json_text import json_size, structure_size
from streamkit.reading.leaked_markup import LeakedMarkup
from streamkit.testing.case import encode_frame

pytestmark = pytest.mark.usefixtures("small_heap")

SMALL = 20_000
SMALL_LIMITS = Limits(arguments=SMALL, text=SMALL, frame=SMALL)
HELD = 10 * SMALL  #: bytes
#: Frames after which a stream that keeps anything must have ended; the shortest counts one character a frame.
FRAMES = SMALL + 10

Stream = Callable[[int], dict[str, Any]]


def chat(delta: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": None}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **fields}


def chat_call(text: str | None = None, *, index: int = 0, **fields: Any) -> dict[str, Any]:
    function = {"arguments": text, **({"name": fields.pop("name")} if "name" in fields else {})}
    return chat({"tool_calls": [{"index": index, **fields, "function": function}]})


def block(number: int, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": number, "content_block": content}


def block_delta(number: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": number, "delta": delta}


def item(kind: str, number: int, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.output_item.{kind}", "output_index": number, "item": {"id": f"i{number}", **fields}}


def gemini(*parts: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **candidate}]}


START = {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}}
CREATED = {"type": "response.created", "response": {"id": "r", "object": "response", "model": "m", "output": []}}
FIRST_CALL = chat_call('{"a":"', id="c1", name="f")

#: By what grows: the provider, the chunks before it, and the chunk of a number.
STREAMS: dict[str, tuple[str, list[dict[str, Any]], Stream]] = {
    "text": ("openai_chat", [], lambda n: chat({"content": f"{n % 90 + 10}"})),
    "reasoning": ("openai_chat", [], lambda n: chat({"reasoning_content": "漢"})),
    "refusal": ("openai_chat", [], lambda n: chat({"refusal": "no"})),
    "arguments": ("openai_chat", [FIRST_CALL], lambda n: chat_call("漢")),
    "arguments of several calls": (
        "openai_chat",
        [chat_call('{"a":"', index=n, id=f"c{n}", name="f") for n in range(20)],
        lambda n: chat_call("ab", index=n % 20),
    ),
    "arguments of small values": ("openai_chat", [chat_call('{"a":[', id="c1", name="f")], lambda n: chat_call("[],")),
    "calls": ("openai_chat", [], lambda n: chat_call("{}", index=n, id=f"c{n}", name="f")),
    "calls without a start": ("openai_chat", [], lambda n: chat_call("{}", index=n, id=f"c{n}")),
    "the name of a call": ("openai_compatible", [], lambda n: chat_call(None, id="c1", name=f"n{n}")),
    "ids of one call": ("openai_chat", [FIRST_CALL], lambda n: chat_call("a", id=f"c{n}")),
    "keys of one call": ("openai_chat", [FIRST_CALL], lambda n: chat_call("a", index=n, id="c1")),
    "metadata of a call": ("openai_chat", [FIRST_CALL], lambda n: chat_call(None, extra_content={f"n{n}": n})),
    "choices": ("openai_chat", [], lambda n: {**chat(), "choices": [{"index": n, "delta": {"content": "x"}}]}),
    "annotations": ("openai_chat", [chat({"content": "x"})], lambda n: chat({"annotations": [{"n": n}]})),
    "early citations": ("openai_chat", [], lambda n: chat({"annotations": [{"url": "https://e.org"}]})),
    "sources": ("openai_chat", [chat({"content": "x"})], lambda n: chat(citations=[f"https://{n}"])),
    "log probabilities": (
        "openai_chat",
        [chat({"content": "x"})],
        lambda n: {**chat(), "choices": [{"index": 0, "delta": {"content": "x"}, "logprobs": {"content": [{"t": n}]}}]},
    ),
    "images": (
        "openai_chat",
        [],
        lambda n: chat({"images": [{"type": "image_url", "image_url": {"url": f"https://{n}"}}]}),
    ),
    "reasoning details": (
        "openrouter",
        [],
        lambda n: chat({"reasoning_details": [{"type": "reasoning.encrypted", "data": f"{n}", "index": n}]}),
    ),
    "usage": ("openai_chat", [chat({"content": "x"})], lambda n: chat(usage={f"n{at}": [[]] for at in range(n)})),
    "warnings": ("openai_chat", [chat({"content": "x"})], lambda n: chat_call("x" * 3000, index=n)),
    "empty blocks": ("anthropic", [START], lambda n: block(n, type="text", text="")),
    "blocks of text": ("anthropic", [START], lambda n: block(n, type="text", text="x")),
    "opaque blocks": ("anthropic", [START], lambda n: block(n, type="new", value=n)),
    "fields of an opaque block": (
        "anthropic",
        [START, block(0, type="new")],
        lambda n: block_delta(0, type="new_delta", **{f"n{n}": [[]]}),
    ),
    "a signature": (
        "anthropic",
        [START, block(0, type="thinking", thinking="")],
        lambda n: block_delta(0, type="signature_delta", signature=f"{n}"),
    ),
    "redacted reasoning": ("anthropic", [START], lambda n: block(n, type="redacted_thinking", data="x")),
    "input of a server tool": (
        "anthropic",
        [START, block(0, type="server_tool_use", id="s", name="web_search", input={})],
        lambda n: block_delta(0, type="input_json_delta", partial_json="ab"),
    ),
    "results of server tools": (
        "anthropic",
        [START],
        lambda n: block(n, type="web_search_tool_result", tool_use_id=f"s{n}", content=[]),
    ),
    "citations": (
        "anthropic",
        [START, block(0, type="text", text="x")],
        lambda n: block_delta(0, type="citations_delta", citation={"n": n}),
    ),
    "input of calls before their deltas": (
        "anthropic",
        [START],
        lambda n: block(n, type="tool_use", id=f"t{n}", name="f", input={"a": n}),
    ),
    "items": ("openai_responses", [CREATED], lambda n: item("added", n, type="message", content=[])),
    "items of an unknown type": ("openai_responses", [CREATED], lambda n: item("added", n, type="new", value=n)),
    "items of server tools": ("openai_responses", [CREATED], lambda n: item("done", n, type="web_search_call")),
    "reasoning items": ("openai_responses", [CREATED], lambda n: item("done", n, type="reasoning", summary=[])),
    "shell calls": (
        "openai_responses",
        [CREATED],
        lambda n: item("done", n, type="shell_call", call_id=f"s{n}", action={"commands": ["ls"]}),
    ),
    "parts of an item": (
        "openai_responses",
        [CREATED, item("added", 0, type="message", content=[])],
        lambda n: {"type": "response.output_text.delta", "item_id": "i0", "content_index": n, "delta": "x"},
    ),
    "text of an item": (
        "openai_responses",
        [CREATED, item("added", 0, type="message", content=[])],
        lambda n: {"type": "response.output_text.delta", "item_id": "i0", "content_index": 0, "delta": "漢"},
    ),
    "facts of a response": (
        "openai_responses",
        [CREATED],
        lambda n: {"type": "response.in_progress", "response": {"id": "r", f"n{n}": n}},
    ),
    "signed parts": ("gemini", [], lambda n: gemini({"text": "x", "thoughtSignature": f"{n}"})),
    "fragments of arguments": (
        "gemini",
        [gemini({"functionCall": {"name": "f", "willContinue": True}})],
        lambda n: gemini(
            {"functionCall": {"partialArgs": [{"jsonPath": f"$.a{n}", "numberValue": 1}], "willContinue": True}}
        ),
    ),
    "long names of arguments that are out of order": (
        "gemini",
        [gemini({"functionCall": {"name": "f", "willContinue": True}})],
        lambda n: gemini(
            {
                "functionCall": {
                    "partialArgs": [{"jsonPath": f"$.{'😀' * 2000}{n}", "numberValue": 1}],
                    "willContinue": True,
                }
            }
        ),
    ),
    "a string of arguments": (
        "gemini",
        [gemini({"functionCall": {"name": "f", "willContinue": True}})],
        lambda n: gemini(
            {
                "functionCall": {
                    "partialArgs": [{"jsonPath": "$.a", "stringValue": "ab", "willContinue": True}],
                    "willContinue": True,
                }
            }
        ),
    ),
    "log probabilities of a candidate": (
        "gemini",
        [gemini({"text": "x"})],
        lambda n: gemini({"text": "x"}, logprobsResult={"chosenCandidates": [{"n": n}]}),
    ),
    "unknown parts": ("gemini", [], lambda n: gemini({"newPart": {"n": n}})),
    "input of a server tool of Bedrock": (
        "bedrock_converse",
        [
            {"messageStart": {"role": "assistant"}},
            {
                "contentBlockStart": {
                    "contentBlockIndex": 0,
                    "start": {"toolUse": {"toolUseId": "s", "name": "n", "type": "server_tool_use"}},
                }
            },
        ],
        lambda n: {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": "ab"}}}},
    ),
    "redacted reasoning of Bedrock": (
        "bedrock_converse",
        [{"messageStart": {"role": "assistant"}}],
        lambda n: {
            "contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"redactedContent": "YWI="}}}
        },
    ),
    "a result of a server tool of Bedrock": (
        "bedrock_converse",
        [
            {"messageStart": {"role": "assistant"}},
            {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolResult": {"toolUseId": "s"}}}},
        ],
        lambda n: {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolResult": [{"json": {}}]}}},
    ),
    "citations of Cohere": (
        "cohere",
        [{"type": "message-start", "id": "m", "delta": {"message": {"role": "assistant"}}}],
        lambda n: {"type": "citation-start", "index": n, "delta": {"message": {"citations": {"start": n}}}},
    ),
    "calls of Ollama": (
        "ollama",
        [],
        lambda n: {
            "model": "m",
            "message": {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": f"f{n}"}}]},
            "done": False,
        },
    ),
}


def run(
    provider: str, first: list[dict[str, Any]], stream: Stream, limits: Limits, markup: LeakedMarkup = "keep"
) -> tuple[Turn, int]:
    """Feed a stream until the turn is done; return the turn, open, and the bytes that it holds."""
    traits = providers.get(provider).traits
    Turn(provider, leaked_markup=markup).feed(encode_frame(stream(0), traits))  # imports are not counted
    gc.collect()
    tracemalloc.start()
    try:
        turn = Turn(provider, "turn-1", limits=limits, leaked_markup=markup)
        for chunk in first:
            turn.feed(encode_frame(chunk, traits))
        for number in range(FRAMES):
            turn.feed(encode_frame(stream(number), traits))
            if turn.done:
                break
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return turn, held


@pytest.mark.slow
@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_that_is_kept_without_an_end_ends_the_turn(kind: str) -> None:
    turn, held = run(*STREAMS[kind], SMALL_LIMITS)
    assert turn.error is not None, f"{held} bytes are held"
    assert turn.error.kind == "limit_exceeded"
    assert held < HELD
    turn.close()
    assert not turn.executable


@pytest.mark.slow
def test_fields_of_usage_are_merged_up_to_a_limit() -> None:
    stream: Stream = lambda n: {"type": "message_delta", "delta": {}, "usage": {f"n{n}": 1}}  # noqa: E731
    turn, held = run("anthropic", [START], stream, SMALL_LIMITS)
    assert turn.error is None
    assert held < HELD
    assert turn.usage is not None
    assert len(json.dumps(turn.usage.raw)) < SMALL


#: Streams that are read and not kept: nothing of them may count.
NOT_KEPT: dict[str, tuple[str, list[dict[str, Any]], Stream]] = {
    "one finish reason": (
        "openai_chat",
        [chat({"content": "x"})],
        lambda n: {**chat(), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ),
    "the same usage": ("openai_chat", [chat({"content": "x"})], lambda n: chat(usage={"prompt_tokens": n})),
    "the same metadata": ("openai_chat", [FIRST_CALL], lambda n: chat_call(None, extra_content={"a": "x" * 50})),
    "sources again": ("openai_chat", [chat({"content": "x"})], lambda n: chat(citations=["https://a", "https://b"])),
    "unknown chunks": ("openai_chat", [chat({"content": "x"})], lambda n: {"object": "new", "value": n}),
    "pings": ("anthropic", [START], lambda n: {"type": "ping"}),
    "the same facts": ("openai_responses", [CREATED], lambda n: {**CREATED, "type": "response.in_progress"}),
    "restated arguments": (
        "openai_chat",
        [chat_call('{"a":1}', id="c1", name="f")],
        lambda n: chat_call(f'{{"a":{n}}}', id="c1", name="f"),
    ),
}


@pytest.mark.parametrize("kind", NOT_KEPT)
def test_what_is_not_kept_does_not_count(kind: str) -> None:
    provider, first, stream = NOT_KEPT[kind]
    traits = providers.get(provider).traits
    turn = Turn(provider, "turn-1", limits=Limits(text=3000))
    for chunk in (*first, *map(stream, range(500))):
        turn.feed(encode_frame(chunk, traits))
        assert turn.error is None


# ---------------------------------------------------------------- the cost of text


@pytest.mark.slow
@pytest.mark.parametrize("delta", ["ab", "漢", "seven c", "😀", "漢字かな交じ"])
@pytest.mark.parametrize("field", ["content", "reasoning_content", "arguments"])
def test_text_costs_at_most_four_bytes_a_character_before_and_after_it_is_read(field: str, delta: str) -> None:
    characters = 60_000
    traits = providers.get("openai_chat").traits
    turn = Turn("openai_chat", "turn-1")
    turn.feed(encode_frame(FIRST_CALL if field == "arguments" else chat({field: "a"}), traits))
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(characters // len(delta)):
            varied = delta if delta.isascii() else "".join(chr(ord(letter) + number % 50) for letter in delta)
            turn.feed(encode_frame(chat_call(varied) if field == "arguments" else chat({field: varied}), traits))
        before, _ = tracemalloc.get_traced_memory()
        read = turn.calls[0].arguments_text if field == "arguments" else turn.text + turn.reasoning
        size = len(read)
        del read
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    per_character = (max(map(ord, delta)) > 0xFFFF and 4) or (max(map(ord, delta)) > 0xFF and 2) or 1
    assert size >= characters * 0.99
    assert before <= max(4, per_character + 1) * characters
    if field != "arguments":  # partial arguments are another copy, as an object
        assert after <= max(4, per_character + 1) * characters


def test_joining_the_parts_of_arguments_changes_nothing_that_is_read_in_between() -> None:
    text = json.dumps({"a": "x" * 3000, "b": ["漢字", 1.5] * 200, "c": "😀" * 500}, ensure_ascii=False)
    turn = Turn("openai_chat", "turn-1")
    turn.feed(chat_call("", id="c1", name="f"))
    for at in range(0, len(text), 3):
        turn.feed(chat_call(text[at : at + 3]))
        if at % 700 == 0:
            (call,) = turn.calls
            assert call.arguments_text == text[: at + 3]
            assert all(json.loads(text)[name][: len(value)] == value for name, value in call.partial.items())
    turn.feed({**chat(), "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    turn.close()
    (call,) = turn.executable
    assert call.arguments == json.loads(text)


# ---------------------------------------------------------------- each limit


def test_a_name_has_a_limit() -> None:
    for name, error in (("f" * 1024, None), ("f" * 1025, "limit_exceeded")):
        for chunks in ([chat_call("{}", id="c", name=name)], [chat_call("", id="c", name=part) for part in (name, "")]):
            turn = Turn("openai_compatible", "turn-1")
            for chunk in chunks:
                turn.feed(chunk)
            assert (turn.error and turn.error.kind) == error
    turn = Turn("openai_chat", "turn-1", limits=Limits(name=3))
    turn.feed(chat_call("{}", id="c", name="four"))
    assert turn.error is not None
    assert turn.error.message == "the name of a tool exceeds 3 characters"
    assert turn.calls == []


def test_the_name_of_a_server_tool_has_the_same_limit() -> None:
    turn = Turn("anthropic", "turn-1")
    turn.feed(START)
    turn.feed(block(0, type="server_tool_use", id="s", name="n" * 1025, input={}))
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"


def test_arguments_count_against_the_limit_of_text_too() -> None:
    turn = Turn("openai_chat", "turn-1", limits=Limits(text=3000))
    for number in range(3):
        turn.feed(chat_call('{"a":"' + "x" * 700 + '"}', index=number, id=f"c{number}", name="f"))
    assert turn.error is not None
    assert turn.error.message == "what is kept of the response exceeds 3000 characters"


def test_arguments_of_many_small_values_are_not_parsed_beyond_the_limit() -> None:
    arguments = json.dumps({"a": [[]] * 4000})
    turn = Turn("openai_chat", limits=Limits(text=len(arguments) + 8192))
    function = {"name": "f", "arguments": arguments}
    calls = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
    turn.feed({"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
    turn.feed({"id": "r", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    turn.close()
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"
    (call,) = turn.calls
    assert (call.state, call.arguments, call.arguments_text) == ("invalid", None, arguments)
    assert [warning.code for warning in call.warnings] == ["invalid_arguments"]
    assert turn.executable == []


def test_each_block_and_each_call_counts() -> None:
    turn = Turn("anthropic", "turn-1", limits=Limits(text=10_000))
    turn.feed(START)
    fed = 0
    for fed in islice(count(), 100):
        turn.feed(block(fed, type="text", text="x"))
        if turn.done:
            break
    assert 5 < fed < 20


def test_a_large_error_is_kept_in_part() -> None:
    error = {"message": "m" * 90_000, "values": [[]] * 5_000}
    limits = Limits(text=1000, frame=1_000_000)
    turn = Turn("openai_chat", "turn-1", limits=limits)
    turn.feed(encode_frame({"error": error}, providers.get("openai_chat").traits))
    assert turn.error is not None
    assert turn.error.kind == "provider_error"
    assert len(turn.error.message) == len(turn.error.raw) == 2000


def test_a_long_warning_is_shortened() -> None:
    turn = Turn("openai_chat", "turn-1")
    turn.feed(chat_call('{"a":1', id="c1", name="f"))
    turn.feed(chat_call("}", name="g" * 100_000))
    (warning,) = turn.warnings
    assert warning.code == "name_changed"
    assert len(warning.message) < 2100


@pytest.mark.slow
def test_the_first_chunks_of_another_wire_are_kept_only_as_their_beginning() -> None:
    traits = providers.get("anthropic").traits
    frame = encode_frame({"object": "new", "value": [[]] * 5_000}, traits)
    gc.collect()
    tracemalloc.start()
    try:
        turn = Turn("anthropic", "turn-1", limits=SMALL_LIMITS)
        for _ in range(200):
            turn.feed(frame)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < HELD / 5


MARKUP: dict[str, Iterator[str] | list[str]] = {
    "an unclosed call": ["<tool_call>", *['{"name": "f", "arguments": {"a": "'], *["ab"] * FRAMES],
    "an unclosed parameter": ["<function=f>", "<parameter=a>", *["ab"] * FRAMES],
    "calls": [f'<tool_call>{{"name": "f", "arguments": {{"a": {n}}}}}</tool_call>' for n in range(3000)],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MARKUP)
@pytest.mark.parametrize("mode", ["strip", "recover"])
def test_leaked_markup_is_held_within_the_limits(mode: LeakedMarkup, kind: str) -> None:
    texts = list(MARKUP[kind])

    def stream(number: int) -> dict[str, Any]:
        return chat({"content": texts[number] if number < len(texts) else "ab"})

    turn, held = run("openai_compatible", [], stream, SMALL_LIMITS, mode)
    assert held < HELD
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"


# ---------------------------------------------------------------- what a value counts


@pytest.mark.parametrize(
    "value",
    [[], {}, [[]] * 1000, [{}] * 1000, {f"a{n}": n for n in range(500)}, ["ab"] * 1000, [1.5] * 1000,
     [{"a": {"b": [1]}}] * 200, ["\ud83d"] * 1000, [2**70] * 1000, "x" * 1000, "漢" * 1000,
     {"a": "\ud83d", "b": [[]] * 900}],
)  # fmt: skip
def test_a_value_counts_at_least_a_tenth_of_its_memory(value: Any) -> None:
    text = json.dumps(value)
    tracemalloc.start()
    try:
        kept = json.loads(text)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / 10 <= json_size(kept) <= 100 + 20 * len(text)
    if isinstance(value, dict):
        assert held / 10 <= len(text) + structure_size(text)


def test_text_counts_about_its_length() -> None:
    assert json_size("x" * 1000) < 1100
    assert json_size({"data": "x" * 1000}) < 1200
    assert json_size(None) == 0


def test_the_metadata_of_a_call_beyond_the_limit_is_not_that_of_another_call() -> None:
    turn = Turn("openai_responses", turn_key="t", limits=Limits(calls=1))
    turn.feed({"type": "response.created", "response": {"id": "r", "object": "response", "model": "m"}})
    calls = [
        {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "f", "arguments": "{}"}
        for number in (1, 2)
    ]
    turn.feed({"type": "response.completed", "response": {"id": "r", "object": "response", "output": calls}})
    turn.close()
    (call,) = turn.calls
    assert call.metadata["item_id"] == "fc_1"
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"
    assert turn.warnings == []


def test_the_limit_of_nesting_counts_levels_and_not_brackets() -> None:
    arguments = json.dumps({"a": [{}] * 20})
    function = {"name": "f", "arguments": arguments}
    call = {"index": 0, "id": "c", "type": "function", "function": function}
    chunk = {"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": [{"delta": {"tool_calls": [call]}}]}
    states = {}
    for limit in (2, 3):
        turn = Turn("openai_chat", "k", limits=Limits(nesting=limit))
        turn.feed(chunk)
        turn.close(complete=True)
        states[limit] = turn.error and turn.error.kind
    assert states == {2: "limit_exceeded", 3: None}


@pytest.mark.parametrize("provider", ["openai_chat", "gemini"])
def test_choices_beyond_their_number_have_no_events(provider: str) -> None:
    texts: dict[str, list[dict[str, Any]]] = {
        "openai_chat": [{"index": n, "delta": {"content": "a"}, "finish_reason": "stop"} for n in range(400)],
        "gemini": [{"index": n, "content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"} for n in range(400)],
    }
    turn = Turn(provider)
    field = "candidates" if provider == "gemini" else "choices"
    events = turn.feed({"id": "c", "model": "m", field: texts[provider]})
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"
    told = {choice for event in events if (choice := getattr(event, "choice", None)) is not None}
    assert told == {choice.index for choice in turn.choices}
    assert len(told) == 128


@pytest.mark.parametrize("empty", [[], {}, "", None])
def test_an_empty_citation_has_no_event(empty: Any) -> None:
    message = {"role": "assistant", "content": [], "citations": [empty] * 20}
    turn = Turn("cohere", "k")
    seen = turn.feed({"id": "1", "type": "message-start", "delta": {"message": message}})
    assert "citation" not in [event.type for event in seen]
