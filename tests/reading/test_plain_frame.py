"""Plain frames that are read without the parser cause the same events; all other frames are parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from shared_data import recorded_streams

from streamkit import Limits, Turn
from streamkit.events import Event, Failed
from streamkit.providers.cohere.parser import CohereParser
from streamkit.providers.openai_chat.parser import ChatParser
from streamkit.reading.plain_frame import PlainFrame

PARSERS: dict[str, Any] = {"openai_chat": ChatParser, "cohere": CohereParser}
WORDS = [f" word{number}" for number in range(60)]
ESCAPED = [f'"{number}"\n' for number in range(60)]
HAN = [f"\u6f22{number}\U0001f600" for number in range(60)]  # neither escaped by JSON nor ASCII


def sse(data: str, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + data.encode("utf-8", "surrogatepass") + b"\n\n"


def chat(delta: dict[str, Any], **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **fields}
    return sse(json.dumps(chunk))


def chat_text(text: str, **fields: Any) -> bytes:
    return chat({"content": text}, **fields)


def chat_arguments(text: str, index: int = 0) -> bytes:
    return chat({"tool_calls": [{"index": index, "function": {"arguments": text}}]})


def chat_call(index: int = 0) -> bytes:
    return chat({"tool_calls": [{"index": index, "id": f"call_{index}", "function": {"name": "f", "arguments": ""}}]})


def cohere(kind: str, **message: Any) -> bytes:
    return sse(json.dumps({"type": kind, "index": 0, "delta": {"message": message}}), kind)


COHERE_START = [
    sse('{"type":"message-start","id":"m","delta":{"message":{"role":"assistant"}}}', "message-start"),
    cohere("tool-call-start", tool_calls={"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}),
]


def cohere_arguments(text: str) -> bytes:
    return cohere("tool-call-delta", tool_calls={"function": {"arguments": text}})


def feed(
    provider: str, reads: list[bytes], monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[list[list[Event]], Turn, int]:
    """Return the events of each read, the turn, and how many frames its parser has read."""
    parser, frames = PARSERS[provider], 0
    frame = parser.frame

    def count(self: Any, name: bytes, data: bytes) -> None:
        nonlocal frames
        frames += 1
        frame(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(parser, "frame", count)
        turn = Turn(provider, turn_key="t", **options)
        events: list[list[Event]] = [list(turn.feed(read)) for read in reads]
        events.append(turn.close())
    return events, turn, frames


def together_text(text: str, token: object) -> bytes:
    """Return a chunk as Together sends it."""
    choice = {"index": 0, "text": text, "delta": {"token_id": token, "role": "assistant", "content": text}}
    return sse(json.dumps({"id": "c", "model": "m", "choices": [choice]}))


def azure_text(text: str, **filters: Any) -> bytes:
    results = {"hate": {"filtered": False, "severity": "safe"}, **filters}
    return sse(
        json.dumps(
            {
                "id": "c",
                "model": "m",
                "choices": [{"index": 0, "content_filter_results": results, "delta": {"content": text}}],
            }
        )
    )


def thinking(word: str) -> dict[str, Any]:
    """Return a part of a content as Magistral sends it."""
    return {"type": "thinking", "thinking": [{"type": "text", "text": word}]}


def compare(provider: str, reads: list[bytes], monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Turn, int]:
    """Check that every read causes the same events with and without a form; return the turn and parsed frames."""
    events, turn, frames = feed(provider, reads, monkeypatch, **options)
    with monkeypatch.context() as patch:
        patch.setattr(PlainFrame, "learn", lambda self, data: None)
        expected, other, _ = feed(provider, reads, monkeypatch, **options)
    assert events == expected
    assert (turn.to_dict(), turn.metadata) == (other.to_dict(), other.metadata)
    return turn, frames


LEARNED = {
    "text": ("openai_chat", [chat_text(word) for word in WORDS]),
    "reasoning": ("openai_chat", [chat({"reasoning_content": word}) for word in WORDS]),
    "arguments": ("openai_chat", [chat_call(), chat_arguments('{"a":"'), *map(chat_arguments, WORDS)]),
    "padding": ("openai_chat", [chat_text(w, obfuscation="x7" * (1 + n % 9)) for n, w in enumerate(WORDS)]),
    "characters as they are": ("openai_chat", [chat_text("@").replace(b"@", text.encode()) for text in HAN]),
    "padding before the text": ("openai_chat", [chat_text(word, created=2) for word in WORDS]),
    "a detail that repeats the reasoning": (
        "openai_chat",
        [
            chat({"reasoning": word, "reasoning_details": [{"type": kind, field: word, "index": 0, "id": None}]})
            for kind, field in (("reasoning.text", "text"), ("reasoning.summary", "summary"))
            for word in WORDS
        ],
    ),
    "reasoning in two fields": ("openai_chat", [chat({"reasoning": w, "reasoning_content": w}) for w in WORDS]),
    "text that a field repeats": ("openai_chat", [chat_text(word, p=word) for word in WORDS]),
    "a time that changes now and then": ("openai_chat", [chat_text(w, created=n // 20) for n, w in enumerate(WORDS)]),
    "padding that may be empty": (
        "openai_chat",
        [chat_text(w, obfuscation="x" * (n % 3)) for n, w in enumerate(WORDS)],
    ),
    "a number between the text and its repetition": (
        "openai_chat",
        [together_text(word, n**3) for n, word in enumerate(WORDS, 1)],
    ),
    "filters that found nothing": ("openai_chat", [azure_text(word) for word in WORDS]),
    "a part of thinking": ("openai_chat", [chat({"content": [thinking(word)]}) for word in WORDS]),
    "text that JSON escapes": ("openai_chat", [chat_text(text) for text in ESCAPED]),
    "cohere": ("cohere", [cohere("content-delta", content={"text": word}) for word in WORDS]),
    "cohere, thinking": ("cohere", [cohere("content-delta", content={"thinking": word}) for word in WORDS]),
    "cohere, plan": ("cohere", [cohere("tool-plan-delta", tool_plan=word) for word in WORDS]),
    "cohere, arguments": ("cohere", [*COHERE_START, cohere_arguments('{"a":"'), *map(cohere_arguments, WORDS)]),
}


@pytest.mark.parametrize("name", LEARNED)
def test_a_run_of_plain_frames_is_read_without_the_parser(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, reads = LEARNED[name]
    turn, frames = compare(provider, reads, monkeypatch)
    assert frames < len(reads) - 30
    text = turn.text or turn.reasoning or turn.calls[0].arguments_text
    words = {"characters as they are": HAN, "text that JSON escapes": ESCAPED}.get(name, WORDS)
    assert "".join(words) in text


IN_A_RUN = {
    "escapes": [chat_text('a "quoted"\nline\\ é 😀')],
    "characters that JSON does not escape": [sse('{"choices":[{"index":0,"delta":{"content":"é 😀 漢"}}]}')],
    "half of a pair": [chat_text("\ud83d"), chat_text("\ude00")],
    "no text": [chat_text("")],
    "null": [chat({"content": None})],
    "a control character": [chat_text("@").replace(b"@", b"\x01")],
    "not UTF-8": [chat_text("@").replace(b"@", b"\xff")],
    "the text twice": [chat_text(" word59", p=" word59")],
    "a line end before the text": [chat_text("@").replace(b'"@"', b'\n"@"')],
    "a line end after the text": [chat_text("@").replace(b'"@"', b'"@"\n')],
    "a carriage return after the text": [chat_text("@").replace(b'"@"', b'"@"\r')],
    "a space after the text": [chat_text("@").replace(b'"@"', b'"@" ')],
    "another field": [chat_text("a", citations=["https://a.example"])],
    "an unknown field": [chat_text("a", strange=1)],
    "usage": [chat_text("a", usage={"prompt_tokens": 1, "completion_tokens": 2})],
    "another choice": [chat_text("a").replace(b'"index": 0', b'"index": 1')],
    "a comment": [b": keep-alive\n\n"],
    "two frames in a read": [chat_text("a") + chat_text("b")],
    "half a frame": [chat_text("a")[:-30], chat_text("a")[-30:]],
    "half a line end": [chat_text("a")[:-1], chat_text("b")[-1:], chat_text("c")],
    "a frame within a text": [chat_text(chat_text("a").decode())],
    "no JSON": [chat_text("a").replace(b"}]", b"")],
    "the end": [b"data: [DONE]\n\n"],
    "a call": [chat_call(), chat_arguments("{}")],
}


@pytest.mark.parametrize("name", IN_A_RUN)
def test_what_differs_within_a_run_is_read_by_the_parser(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = [chat_text(word) for word in WORDS]
    compare("openai_chat", [*run, *IN_A_RUN[name], *run], monkeypatch)


ARGUMENTS = ["{", '{"a":1}', '{"b":"', "\\", '\\"', "\\u00e9", "}", "é", " ", '{"text":"']


@pytest.mark.parametrize(
    "value",
    [
        "01",
        "1.5",
        "-1",
        "1e3",
        "1" * 30,
        "1" * 5000,
        "null",
        '"a"',
        "[1]",
        "",
        '{"a":1}',
        " 1",
        "\n1",
        "1\n",
        "\r1",
        "0",
    ],
)
def test_a_number_that_is_none_is_read_by_the_parser(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = [together_text(word, n) for n, word in enumerate(WORDS, 1)]
    other = together_text(" other", "@").replace(b'"@"', value.encode())
    for frame in (other, other.replace(b'"token_id": ' + value.encode(), b""), run[0].replace(b'"token_id": 1', b"")):
        compare("openai_chat", [*run, frame, *run], monkeypatch)


@pytest.mark.parametrize("place", [b'\n"@"', b'"@"\n', b'\r"@"', b' "@" '])
@pytest.mark.parametrize("name", ["padding", "a number between the text and its repetition", "text", "cohere"])
def test_a_line_end_next_to_the_text_ends_the_frame(place: bytes, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, run = LEARNED[name]
    other = run[-1].replace(b'" word59"', place.replace(b"@", b" word60"))
    assert other != run[-1]
    compare(provider, [*run, other, *run[2:]], monkeypatch)


@pytest.mark.parametrize("fields", [{"severity": "high", "filtered": True}, {"severity": "high", "detected": True}])
def test_a_filter_that_found_something_is_not_learned(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    reads = [azure_text(word, violence=fields) for word in WORDS]
    turn, frames = compare("openai_chat", reads, monkeypatch)
    assert frames == len(reads)
    assert [warning.code for warning in turn.warnings] == ["content_filtered"]


def test_a_field_in_a_text_is_part_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f'{{"created": {number}}}' for number in range(1, 60)]
    reads = [chat_text(text, extra_text=f'{{"p": {number}}}') for number, text in enumerate(texts)]
    turn, frames = compare("openai_chat", reads, monkeypatch)
    assert turn.text == "".join(texts)
    assert frames == len(reads)  # a text that differs and may be read is not learned


@pytest.mark.parametrize("text", ARGUMENTS)
def test_arguments_that_may_be_another_object_are_assigned_as_ever(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = [chat_arguments(word) for word in WORDS]
    for start in ('{"text":"', '{"text":1}', ""):
        compare("openai_chat", [chat_call(), chat_arguments(start), *run, chat_arguments(text), *run], monkeypatch)


def test_calls_that_alternate_get_their_own_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = [chat_call(0), chat_call(1)]
    for word in WORDS:
        reads += [chat_arguments(word, 0)] * 20 + [chat_arguments(word, 1)] * 20
    turn, _ = compare("openai_chat", reads, monkeypatch)
    assert len(turn.calls) == 2


@pytest.mark.parametrize(
    "delta",
    [
        lambda word: {"content": word, "reasoning_content": word},
        lambda word: {"reasoning": word, "reasoning_details": [{"type": "reasoning.encrypted", "data": word}]},
        lambda word: {"reasoning": word, "reasoning_details": [{"type": "reasoning.text", "text": word, "n": [1]}]},
        lambda word: {"reasoning": word, "reasoning_details": [{"type": "a", "text": word}, {"type": "b"}]},
        lambda word: {"reasoning_details": [{"type": "reasoning.text", "text": word}]},
        lambda word: {"content": [thinking(word), thinking(word)]},
        lambda word: {"content": [{**thinking(word), "signature": "s"}]},
        lambda word: {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": word}] * 2}]},
        lambda word: {"refusal": word},
    ],
)
def test_a_frame_with_more_than_one_delta_is_not_learned(delta: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = [chat(delta(word)) for word in WORDS]
    _, frames = compare("openai_chat", reads, monkeypatch)
    assert frames == len(reads)


@pytest.mark.parametrize("field", ["p", "obfuscation", "token_id"])
@pytest.mark.parametrize("place", ["detail", "filters", "text in filters", "name of a filter"])
def test_what_varies_in_what_is_kept_is_read(field: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    for number, word in enumerate(WORDS, 1):
        word = word.strip()
        value: Any = number if field == "token_id" else "x" * (number % 5)
        if place == "detail":
            details = [{"type": "reasoning.text", field: value, "text": word}]
            reads.append(chat({"reasoning": word, "reasoning_details": details}))
        elif place == "name of a filter":
            reads.append(azure_text(word, **{word: {"filtered": False}}))
        else:
            results = {"filtered": False, field: value} if place == "filters" else {"filtered": False, "severity": word}
            reads.append(azure_text(word, violence=results))
    compare("openai_chat", reads, monkeypatch)


@pytest.mark.parametrize("fields", [{"usage": {"prompt_tokens": 5}}, {"citations": ["https://a.example"]}])
def test_a_frame_with_a_fact_about_the_response_is_not_learned(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = [chat_text(word, **fields) for word in WORDS]
    _, frames = compare("openai_chat", reads, monkeypatch)
    assert frames == len(reads)


@pytest.mark.parametrize("field", ["id", "model", "system_fingerprint", "provider"])
@pytest.mark.parametrize("other", [{"id": None}, {"model": None}])
def test_nothing_is_learned_while_the_response_is_not_identified(
    other: dict[str, None], field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = [chat_text(word, **{**other, field: word}) for word in WORDS]
    _, frames = compare("openai_chat", run, monkeypatch)
    assert field in other or frames == len(run)  # all chunks are read for the id and the model


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"@","index":0,"delta":{"message":{"content":{"text":"content\\u002ddelta"}}}}',  # written otherwise
        '{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"\\u0040"}}}}',
        '{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"a","text":"@"}}}}',
        '{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"@","text":"\\u0040"}}}}',
        '{"type":"content-delta","index":0,"delta":{"message":{"content":{"t\\u0065xt":"@"}}}}',
        '{"index":0,"delta":{"message":{"content":{"text":"@"}}},"type":"content-delta"}',
        '{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"@" }} } }',
        '{"type":"content-delta","index":0,"delta":{"message":{"content":{"text": "@", "text":"@"}}}}',
    ],
)
@pytest.mark.parametrize("text", ["content-delta", "word", ":", ",", '":"', ":{"])
def test_only_the_place_of_the_text_is_learned(frame: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text, "word", "content-delta", "tool-plan-delta", text, ":", "x"]
    run = [sse(frame.replace("@", json.dumps(each)[1:-1]), "content-delta") for each in texts]
    compare("cohere", [COHERE_START[0], *run, cohere("content-delta", content={"text": "end"}), *run], monkeypatch)


def test_the_third_delta_of_a_block_is_read_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = [COHERE_START[0], *[cohere("content-delta", content={"text": text}) for text in "wxyz"]]
    turn, frames = compare("cohere", reads, monkeypatch)
    assert (turn.text, frames) == ("wxyz", 3)


def test_the_id_of_a_call_that_repeats_its_arguments_is_not_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [{"index": 0, "id": word, "function": {"arguments": word}} for word in WORDS]
    reads = [chat_call(), *[chat({"tool_calls": [call]}) for call in calls]]
    _, frames = compare("openai_chat", reads, monkeypatch)
    assert frames == len(reads)


def test_a_repetition_that_ends_is_read_by_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    run = [chat({"reasoning": w, "reasoning_details": [{"type": "reasoning.text", "text": w}]}) for w in WORDS]
    others = [
        chat({"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": other}]})
        for other in ("b", "", "aa", 'a"', None)
    ]
    signed = [{"type": "reasoning.text", "text": "", "signature": "s"}]
    compare("openai_chat", [*run, *others, *run, chat({"reasoning_details": signed}), *run], monkeypatch)


def test_text_that_json_has_between_strings_does_not_end_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    separators = [text for text in (":", ",", '":"', ": ", ":[{", "},", "], ") for _ in range(20)]
    mixed = [text for pair in zip(separators, WORDS * 3, strict=False) for text in pair]
    run = [chat_text(text) for text in mixed + WORDS]
    turn, frames = compare("openai_chat", run, monkeypatch)
    assert frames < len(run) - 30
    assert turn.text == "".join(mixed + WORDS)


def test_escaped_characters_do_not_end_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    escaped = [chat_text(text) for text in HAN]
    assert b"\\u6f22" in escaped[0]
    _, frames = compare("openai_chat", [*escaped, *[chat_text(word) for word in WORDS]], monkeypatch)
    assert frames < len(escaped) + 10


def test_a_field_that_varies_and_may_be_read_is_not_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = [chat_text(word, system_fingerprint=f"fp{number}") for number, word in enumerate(WORDS)]
    _, frames = compare("openai_chat", reads, monkeypatch)
    assert frames == len(reads)


@pytest.mark.parametrize("limits", [Limits(text=600), Limits(frame=170), Limits(arguments=100)])
def test_limits_hold_in_a_run(limits: Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    run = [chat_text(word) for word in WORDS] + [chat_text("x" * 300)]
    reads = [*run, chat_call(), *[chat_arguments(word) for word in WORDS]]
    turn, _ = compare("openai_chat", reads, monkeypatch, limits=limits)
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"


def test_nothing_is_read_after_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    events, turn, _ = feed(
        "openai_chat", [chat_text("x" * 50 + w) for w in WORDS], monkeypatch, limits=Limits(text=2000)
    )
    assert turn.done
    assert sum(isinstance(event, Failed) for events_of_read in events for event in events_of_read) == 1
    assert events[-2] == []


def test_text_that_may_contain_markup_is_always_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = [chat_text(word) for word in WORDS]
    _, frames = compare("openai_chat", reads, monkeypatch, leaked_markup="recover")
    assert frames == len(reads)


@pytest.mark.parametrize("provider", PARSERS)
def test_recorded_streams_cause_the_same_events(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = read = 0
    for stream in recorded_streams(provider, ".sse"):
        reads = [part + b"\n\n" for part in stream.data.split(b"\n\n")]
        parsed += compare(provider, reads, monkeypatch)[1]
        read += len(reads)
    assert parsed < read
