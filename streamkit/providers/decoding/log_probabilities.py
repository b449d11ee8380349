"""Log probabilities of tokens, from the forms that the wires have, in one form.

- a list of entries with ``token``, ``logprob`` and ``top_logprobs``: Chat Completions (in ``content`` and ``refusal``),
  Responses, Ollama (https://platform.openai.com/docs/api-reference/chat-streaming);
- lists side by side, ``tokens`` and ``token_logprobs``: Together (https://docs.together.ai/docs/logprobs);
- ``chosenCandidates`` and ``topCandidates``: Gemini (https://ai.google.dev/api/generate-content#LogprobsResult);
- the text of several tokens with ``logprobs``: Cohere (https://docs.cohere.com/v2/reference/chat-stream).

Anything else has no tokens, and is passed on as it came. This module must not depend on a provider.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

from streamkit.events import LogProbabilities, TokenLogProbability

__all__ = ["openai_log_probabilities", "read_log_probabilities"]

_NAMES = ("logprob", "logProbability", "log_probability")


def read_log_probabilities(raw: Any) -> list[TokenLogProbability]:
    """Return the tokens of a wire's log probabilities, in order; an empty list if it has another form."""
    if isinstance(raw, dict):
        entries = [*_as_list(raw.get("content")), *_as_list(raw.get("refusal"))]
        if entries:
            return _tokens(entries)
        if isinstance(raw.get("tokens"), list):
            pairs = zip_longest(raw["tokens"], _as_list(raw.get("token_logprobs")))
            return _tokens({"token": token, "logprob": number} for token, number in pairs)
        chosen = raw.get("chosenCandidates", raw.get("chosen_candidates"))
        top = _as_list(raw.get("topCandidates", raw.get("top_candidates")))
        pairs = zip_longest(_as_list(chosen), top[: len(_as_list(chosen))])
        return [
            _token(entry, _as_list(others.get("candidates")) if isinstance(others, dict) else [])
            for entry, others in pairs
            if _is_entry(entry)
        ] or _read_cohere(raw)
    return _tokens(raw) if isinstance(raw, list) else []


def openai_log_probabilities(event: LogProbabilities) -> list[dict[str, Any]]:
    """Return the entries of an event in the form of Chat Completions, Responses and Ollama.

    Entries that have this form are passed on: a token may be a part of a character, which only their ``bytes`` have.
    """
    raw = event.raw
    if isinstance(raw, dict):
        raw = [*_as_list(raw.get("content")), *_as_list(raw.get("refusal"))]
    entries = [entry for entry in _as_list(raw) if _is_entry(entry) and "logprob" in entry]
    if len(entries) == len(event.tokens):
        return [{"bytes": None, "top_logprobs": [], **entry} for entry in entries]
    return [
        {**_entry(token), "top_logprobs": [_entry(other) for other in token.alternatives]} for token in event.tokens
    ]


def _entry(token: TokenLogProbability) -> dict[str, Any]:
    return {"token": token.token, "logprob": token.logprob, "bytes": None}


def _read_cohere(raw: dict[str, Any]) -> list[TokenLogProbability]:
    """Return the token of Cohere's form, or an empty list for several tokens, because their texts are joined."""
    numbers = _as_list(raw.get("logprobs"))
    return _tokens([{"token": raw.get("text"), "logprob": numbers[0]}]) if len(numbers) == 1 else []


def _tokens(entries: Iterable[Any]) -> list[TokenLogProbability]:
    return [_token(entry, _as_list(entry.get("top_logprobs"))) for entry in entries if _is_entry(entry)]


def _token(entry: dict[str, Any], others: list[Any]) -> TokenLogProbability:
    number = next((entry[name] for name in _NAMES if name in entry), None)
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool) and -1e308 < number < 1e308
    return TokenLogProbability(
        entry["token"],
        float(number) if is_number and number is not None else None,
        tuple(_token(other, []) for other in others if _is_entry(other)),
    )


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("token"), str)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
