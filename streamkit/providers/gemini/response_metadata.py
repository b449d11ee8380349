"""The fields of Gemini's candidates that describe the response and have no event.

Wire      https://ai.google.dev/api/generate-content#candidate

They are kept as metadata of the response, by the provider's names; those of further candidates under
``candidates.1.avgLogprobs``. Of ``continuationToken``, with which a request resumes a response that stopped or broke,
the latest counts. Log probabilities arrive in every chunk for its tokens: their lists are joined and reported at the
end. This module does not depend on parts, usage or finish reasons.
"""

from __future__ import annotations

from typing import Any

from streamkit.json_text import json_size
from streamkit.providers.gemini.schema import Candidate, WideCandidate, to_camel_case
from streamkit.providers.log_probabilities import read_log_probabilities
from streamkit.providers.provider import Sink

__all__ = ["CANDIDATE_FACTS", "ResponseMetadataReader", "facts_prefix"]

_FIELDS = ("safetyRatings", "avgLogprobs", "tokenCount", "groundingAttributions", "continuationToken")
#: The fields of a candidate that are metadata of the response.
CANDIDATE_FACTS = (*_FIELDS, "finishMessage", "logprobsResult")


def facts_prefix(number: int) -> str:
    """Return how the names of the facts about a candidate begin in the metadata of the response."""
    return f"candidates.{number}." if number else ""


class ResponseMetadataReader:
    """A reader that reports metadata to a sink."""

    __slots__ = ("_log_probabilities", "_sink")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._log_probabilities: dict[str, Any] = {}  # by the name of the metadata, those not reported yet

    def read_candidate(self, number: int, candidate: Candidate) -> None:
        """Read the rare fields of a candidate."""
        if not isinstance(candidate, WideCandidate):
            return
        prefix = facts_prefix(number)
        kept = {name: value for name in _FIELDS if (value := getattr(candidate, name)) is not None}
        if kept:
            plain = to_camel_case(kept, rename=False)
            self._sink.add_response_metadata({f"{prefix}{name}": value for name, value in plain.items()})
        if candidate.logprobsResult is not None:
            result = candidate.logprobsResult
            self._sink.choice(number).log_probabilities(read_log_probabilities(result), result)
            self._add_log_probabilities(f"{prefix}logprobsResult", result)

    def _add_log_probabilities(self, name: str, result: Any) -> None:
        if not self._sink.keep(json_size(result)):
            self._log_probabilities.clear()
            return
        known = self._log_probabilities.get(name)
        if not isinstance(result, dict) or not isinstance(known, dict):
            known = self._log_probabilities[name] = {} if isinstance(result, dict) else result
        for field, value in result.items() if isinstance(result, dict) else ():
            before = known.get(field)
            if isinstance(before, list) and isinstance(value, list):
                before.extend(value)
            else:
                known[field] = list(value) if isinstance(value, list) else value

    def end(self) -> None:
        """Report the joined log probabilities."""
        if self._log_probabilities:
            self._sink.add_response_metadata(to_camel_case(self._log_probabilities, rename=False))
