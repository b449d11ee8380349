"""Log probabilities: one event and one form for every wire that has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamkit import Turn, writer
from streamkit.events import LogProbabilities, TokenLogProbability
from streamkit.providers.decoding.log_probabilities import read_log_probabilities

ENTRIES = [
    {"token": "Yes", "logprob": -0.1, "bytes": [89], "top_logprobs": [{"token": "No", "logprob": -2}]},
    {"token": ".", "logprob": -0.5},
]
TOKENS = [TokenLogProbability("Yes", -0.1, (TokenLogProbability("No", -2.0),)), TokenLogProbability(".", -0.5)]


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        (ENTRIES, TOKENS),
        ({"content": ENTRIES, "refusal": None}, TOKENS),
        ({"content": None, "refusal": ENTRIES}, TOKENS),
        (
            {"tokens": ["Yes", "."], "token_logprobs": [-0.1, None]},
            [TokenLogProbability("Yes", -0.1), TokenLogProbability(".")],
        ),
        (
            {
                "chosenCandidates": [
                    {"token": "Yes", "tokenId": 7, "logProbability": -0.1},
                    {"token": ".", "logProbability": -0.5},
                ],
                "topCandidates": [{"candidates": [{"token": "No", "logProbability": -2}]}],
            },
            TOKENS,
        ),
        ({"chosen_candidates": [{"token": ".", "log_probability": -0.5}]}, TOKENS[1:]),
        ({"text": "Ja", "token_ids": [1], "logprobs": [-0.5]}, [TokenLogProbability("Ja", -0.5)]),
        ({"text": "Ja.", "token_ids": [1, 2], "logprobs": [-0.5, -0.1]}, []),  # which token has which text is not told
        ([{"token": "a", "logprob": True}, {"token": 1}, None, "a"], [TokenLogProbability("a")]),
        ({"chosenCandidates": 7, "topCandidates": [7]}, []),
        ({}, []),
        ("-0.5", []),
        (None, []),
    ],
)
def test_every_form_has_the_same_tokens(raw: Any, tokens: list[TokenLogProbability]) -> None:
    assert read_log_probabilities(raw) == tokens


def chat(delta: dict[str, Any], logprobs: Any, reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": logprobs}
    return {"id": "r", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


GEMINI = {"chosenCandidates": [{"token": "Yes", "logProbability": -0.1}, {"token": ".", "logProbability": -0.5}]}
STREAMS: list[tuple[str, dict[str, Any], Any]] = [
    ("openai_chat", chat({"content": "Yes."}, {"content": ENTRIES}), {"content": ENTRIES}),
    ("together", chat({"content": "Yes."}, {"tokens": ["Yes", "."], "token_logprobs": [-0.1, -0.5]}),
     {"tokens": ["Yes", "."], "token_logprobs": [-0.1, -0.5]}),
    ("openai_responses", {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0,
                          "delta": "Yes.", "logprobs": ENTRIES}, ENTRIES),
    ("gemini", {"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]}, "logprobsResult": GEMINI}]},
     GEMINI),
    ("ollama", {"model": "m", "message": {"role": "assistant", "content": "Yes."}, "done": False, "logprobs": ENTRIES},
     ENTRIES),
]  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "chunk", "raw"), STREAMS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_wire_reports_the_event(provider: str, chunk: dict[str, Any], raw: Any) -> None:
    seen = Turn(provider, turn_key="t").feed(chunk)
    (event,) = [event for event in seen if isinstance(event, LogProbabilities)]
    assert [(token.token, token.logprob) for token in event.tokens] == [("Yes", -0.1), (".", -0.5)]
    assert event.raw == raw
    assert "unknown" not in [other.type for other in seen]


def test_the_event_belongs_to_its_choice() -> None:
    chunk = chat({"content": "Yes."}, {"content": ENTRIES})
    chunk["choices"][0]["index"] = 1
    (event,) = [event for event in Turn("openai_chat").feed(chunk) if isinstance(event, LogProbabilities)]
    assert event.choice == 1


def test_the_event_comes_also_while_markup_is_recovered() -> None:
    seen = Turn("openai_compatible", leaked_markup="recover").feed(chat({"content": "Yes."}, {"content": ENTRIES}))
    assert [event.tokens for event in seen if isinstance(event, LogProbabilities)] == [tuple(TOKENS)]


def written(provider: str, chunks: list[dict[str, Any]], target: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the chunks of a stream on another wire, and the body of the same response."""
    results: list[bytes] = []
    for stream in (True, False):
        turn, output = Turn(provider, turn_key="t"), writer(target, stream=stream)
        events = [event for chunk in chunks for event in turn.feed(chunk)] + turn.close()
        results.append(b"".join([output.write(event) for event in events]) + output.close())
        assert "log_probabilities" not in output.omitted
    lines = [line.removeprefix(b"data: ") for line in results[0].splitlines()]
    return [json.loads(line) for line in lines if line.startswith(b"{")], json.loads(results[1])


#: A token that is a part of a character, whose text does not have its bytes.
PARTS = [
    {"token": "Yes", "logprob": -0.1, "bytes": [89, 101, 115], "top_logprobs": []},
    {"token": "\\xf0\\x9f", "logprob": -0.5, "bytes": [240, 159], "top_logprobs": []},
]


def test_a_client_of_responses_gets_the_log_probabilities_of_chat() -> None:
    deltas = [chat({"content": part["token"]}, {"content": [part], "refusal": None}) for part in PARTS]
    chunks, body = written("openai_chat", [*deltas, chat({}, None, "stop")], "openai_responses")
    sent = [chunk["logprobs"] for chunk in chunks if chunk["type"] == "response.output_text.delta"]
    assert [entry for entries in sent for entry in entries] == PARTS
    assert body["output"][0]["content"][0]["logprobs"] == PARTS


def test_a_client_of_chat_gets_the_log_probabilities_of_responses() -> None:
    place: dict[str, Any] = {"item_id": "i", "output_index": 0, "content_index": 0}
    deltas: list[dict[str, Any]] = [
        {"type": "response.output_text.delta", **place, "delta": part["token"], "logprobs": [part]} for part in PARTS
    ]
    end: dict[str, Any] = {"id": "r", "object": "response", "status": "completed", "output": []}
    chunks, body = written(
        "openai_responses", [*deltas, {"type": "response.completed", "response": end}], "openai_chat"
    )
    sent = [choice["logprobs"]["content"] for chunk in chunks for choice in chunk["choices"] if choice["logprobs"]]
    assert [entry for entries in sent for entry in entries] == PARTS
    assert body["choices"][0]["logprobs"] == {"content": PARTS, "refusal": None}


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "ollama"])
def test_the_tokens_of_a_wire_of_another_form_are_written(target: str) -> None:
    stream = [{"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]}, "logprobsResult": GEMINI,
                               "finishReason": "STOP"}]}]  # fmt: skip
    chunks, _ = written("gemini", stream, target)
    assert '"token": "Yes", "logprob": -0.1' in json.dumps(chunks)
