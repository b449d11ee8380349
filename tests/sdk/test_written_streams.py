"""The official SDKs read what ``streamkit.writer`` writes: their clients over loopback, and their accumulators.

The streams are recorded ones of other providers, written to the wire of each SDK.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from differential.sdk_accumulators import WITNESSES, Said
from sdk_clients import SDKS
from sdk_streams import Streams
from shared_data import RecordedStream, recorded_streams

import streamkit
from streamkit import Turn

RECORDED = [stream for stream in recorded_streams() if stream.expected is not None]
#: One stream of each kind of content.
KINDS = ("parallel-calls", "thinking-and-call", "text", "truncated-call", "refusal", "server-tool")
SAMPLE = [stream for stream in RECORDED if stream.path.stem in KINDS]
TARGETS = [*sorted(SDKS), "openai_chat"]


@pytest.fixture(scope="module")
def streams() -> Iterator[Streams]:
    logging.disable(logging.WARNING)
    streams = Streams()
    yield streams
    streams.close()
    logging.disable(logging.NOTSET)


def written(stream: RecordedStream, target: str) -> bytes:
    turn = Turn(stream.provider, "k")
    live = streamkit.writer(target, response_id="resp_1", model="m")
    events = [*turn.feed(stream.data), *turn.close()]
    return b"".join([*map(live.write, events), live.close()])


def read(target: str, data: bytes) -> Turn:
    turn = Turn(target, "k")
    turn.feed(data)
    turn.close()
    return turn


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_client_of_the_sdk_reads_the_turn_that_was_written(target: str, streams: Streams) -> None:
    compared = 0
    for stream in SAMPLE:
        data = written(stream, target)
        by_bytes = read(target, data)
        if by_bytes.error is not None:
            continue  # the SDKs show errors as exceptions, see test_chunk_objects.py
        by_objects = Turn(target, "k")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # google-genai has an enum of the names of server tools
            error = streams.read(data, by_objects)
        assert error is None, f"{stream} as {target}: {error!r}"
        compared += 1
        names = ("text", "reasoning", "finish") if target == "mistral" else ("text", "reasoning", "refusal", "finish")
        for name in names:  # the types of Mistral's SDK have no refusal
            assert getattr(by_objects, name) == getattr(by_bytes, name), f"{stream} as {target}: {name}"
        calls = [[(call.name, call.arguments, call.state) for call in turn.calls] for turn in (by_objects, by_bytes)]
        assert calls[0] == calls[1], f"{stream} as {target}"
    assert compared > 10


def ours(turn: Turn, target: str) -> Said:
    """Return what the turn has, in the words of the SDK's accumulator."""
    usage = turn.usage
    is_anthropic = target == "anthropic"
    calls = [
        [call.name, call.arguments if is_anthropic else call.arguments_text, call.raw_id or ""] for call in turn.calls
    ]
    said: Said = {
        "text": turn.text,
        "refusal": None if is_anthropic else turn.refusal,
        "reasoning": turn.reasoning,
        "calls": calls,
        "usage": usage and [usage.input_tokens or 0, usage.output_tokens or 0],
        "finish": None if target == "openai_responses" else turn.finish and turn.finish.raw,
    }
    return {name: value for name, value in said.items() if value and value != [0, 0]}


@pytest.mark.parametrize("target", sorted(WITNESSES))
def test_the_accumulator_of_the_sdk_has_the_turn_that_was_written(target: str) -> None:
    compared = 0
    for stream in RECORDED:
        data = written(stream, target)
        turn = read(target, data)
        if turn.error is not None or any(call.state != "complete" for call in turn.calls):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            witness = WITNESSES[target](data)
        compared += 1
        assert witness == ours(turn, target), f"{stream} as {target}"
    assert compared > 25


@pytest.mark.parametrize("target", TARGETS)
def test_a_whole_body_is_of_the_type_of_the_sdk(target: str) -> None:
    model = body_type(target)
    if model is None:
        pytest.skip("boto3 has no types for bodies")
    for stream in SAMPLE:
        if stream.path.stem == "server-tool":
            continue  # the types of server tools are a closed list, which other providers' tools are not in
        turn = Turn(stream.provider, "k")
        live = streamkit.writer(target, response_id="resp_1", model="m", stream=False)
        for event in [*turn.feed(stream.data), *turn.close()]:
            assert live.write(event) == b""
        body = json.loads(live.close())
        if target == "mistral" and turn.usage is None:
            continue  # that SDK requires the usage
        if target == "gemini":  # Google sends the tier, which its SDK leaves out: its type has no such field
            body.get("usageMetadata", {}).pop("serviceTier", None)
        if turn.error is None and not any(call.state != "complete" for call in turn.calls):
            model.model_validate(body)


def body_type(target: str) -> Any:
    """Return the SDK's type of a body."""
    if target == "anthropic":
        from anthropic.types import Message

        return Message
    if target == "openai_responses":
        from openai.types.responses import Response

        return Response
    if target == "gemini":
        from google.genai.types import GenerateContentResponse

        return GenerateContentResponse
    if target == "cohere":
        from cohere import V2ChatResponse

        return V2ChatResponse
    if target == "ollama":
        from ollama import ChatResponse

        return ChatResponse
    if target == "mistral":
        from mistralai.client.models import ChatCompletionResponse

        return ChatCompletionResponse
    if target.startswith("bedrock"):
        return None
    from openai.types.chat import ChatCompletion

    return ChatCompletion
