"""Log probabilities: one event and one form for every wire that has them."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import Turn
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
