"""Numbers that have no JSON or no text: input never raises for them, and what is kept is JSON data.

Python converts integers of at most 4300 digits to text. Its JSON reader accepts NaN and infinities, and a dict may have
any number, wherever a wire has a leaf.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shared_data import CONFORMANCE_CASES

from streamkit import Turn, events

CASES = [
    (folder.name, path)
    for folder in sorted(CONFORMANCE_CASES.iterdir())
    for path in sorted(folder.glob("*.json"))
    if "chunks" in json.loads(path.read_text("utf-8"))
]
HUGE = 10**5000
NUMBERS = [HUGE, -HUGE, 10**400, float("inf"), float("nan"), 1e300]


def leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key of each leaf."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(item, (dict, list)):
            yield from leaves(item)
        else:
            yield value, key


def read(provider: str, chunks: list[Any]) -> Turn:
    turn = Turn(provider, turn_key="t")
    for event in [event for chunk in chunks for event in turn.feed(chunk)] + turn.close():
        assert json.loads(events.to_json(event))
    return turn


@pytest.mark.parametrize(("provider", "path"), CASES, ids=[f"{provider}/{path.stem}" for provider, path in CASES])
def test_no_number_in_a_chunk_raises(provider: str, path: Path) -> None:
    given = json.loads(path.read_text("utf-8"))["chunks"]
    chunks = [chunk for chunk in given if isinstance(chunk, dict) and "$times" not in chunk]
    places = random.Random(path.stem).sample(range(1000), 8)  # noqa: S311 - no secrets
    for number, place in enumerate(places):
        changed = copy.deepcopy(chunks)
        found = list(leaves(changed))
        if found:
            container, key = found[place % len(found)]
            container[key] = NUMBERS[number % len(NUMBERS)]
            turn = read(provider, changed)
            assert repr(turn)
            json.dumps(None if turn.usage is None else turn.usage.raw, allow_nan=False)
            turn.content.model_validate_json(turn.content.model_dump_json())


#: A last chunk with usage, of which one number is chosen.
USAGE = {
    "openai_chat": '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"x":%s}}',
    "ollama": '{"model":"m","message":{},"done":true,"done_reason":"stop","eval_count":1,"x_count":%s}',
    "gemini": '{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"x":%s}}',
    "cohere": '{"type":"message-end","delta":{"finish_reason":"ERROR","usage":{"tokens":{"input_tokens":1,"x":%s}}}}',
    "openai_responses": '{"type":"response.completed","response":{"usage":{"input_tokens":1,"x":%s}}}',
}


def framed(provider: str, chunk: str) -> bytes:
    return f"{chunk}\n".encode() if provider == "ollama" else f"data: {chunk}\n\n".encode()


@pytest.mark.parametrize(("number", "kept"), [("1e999", "Infinity"), ("-Infinity", "-Infinity"), ("NaN", "NaN")])
@pytest.mark.parametrize("provider", USAGE)
def test_the_usage_that_is_kept_is_json(provider: str, number: str, kept: str) -> None:
    turn = Turn(provider, turn_key="t")
    turn.feed(framed(provider, USAGE[provider] % number))
    turn.close()
    assert turn.usage is not None
    assert f'"{kept}"' in json.dumps(turn.usage.raw, allow_nan=False)


@pytest.mark.parametrize("provider", USAGE)
def test_bytes_with_an_integer_of_5000_digits_are_an_error(provider: str) -> None:
    turn = Turn(provider, turn_key="t")
    turn.feed(framed(provider, USAGE[provider] % ("1" + "0" * 5000)))
    turn.close()
    assert turn.error is not None
    assert turn.error.kind == "protocol_error"


@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses", "gemini"])
def test_a_call_with_an_integer_of_5000_digits_is_an_error(provider: str) -> None:
    call = {"name": "f", "arguments": {"a": HUGE}, "args": {"a": HUGE}}
    chunk = {
        "openai_chat": {
            "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "x", "function": call}]}}]
        },
        "openai_responses": {
            "type": "response.output_item.done",
            "item": {"type": "function_call", "call_id": "c", **call},
        },
        "gemini": {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"a": HUGE}}}]}}]},
    }[provider]
    turn = read(provider, [chunk])
    assert turn.error is not None
    assert turn.executable == []


def test_a_provider_s_error_with_a_code_of_5000_digits_stays_the_provider_s() -> None:
    turn = read("openai_chat", [{"error": {"message": "Overloaded", "code": HUGE}}])
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message) == ("provider_error", "Overloaded")


def test_the_number_of_a_choice_is_no_integer_of_5000_digits() -> None:
    turn = read("openai_chat", [{"choices": [{"index": HUGE, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}])
    assert (turn.text, turn.warnings) == ("Hi", [])
