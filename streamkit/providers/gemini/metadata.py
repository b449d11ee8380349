"""What Gemini's responses report beside their parts: metadata of the response and token counts.

Wire: https://ai.google.dev/api/generate-content#candidate and #UsageMetadata

The fields of candidates that have no event are kept as metadata of the response, by the provider's names; those of
further candidates under ``candidates.1.avgLogprobs``. Of ``continuationToken``, with which a request resumes a response
that stopped or broke, the latest counts. Log probabilities arrive in every chunk for its tokens: their lists are joined
and reported at the end.

Every chunk has the token counts so far. The last count of each field is used and nothing is added up over chunks
(docs/rules.md, "Usage"). This module must not depend on parts or finish reasons.
"""

from __future__ import annotations

from typing import Any

from streamkit.calls import Usage
from streamkit.json_text import json_size
from streamkit.providers.decoding.decoding import as_integer
from streamkit.providers.decoding.log_probabilities import read_log_probabilities
from streamkit.providers.gemini.schema import Candidate, UsageMetadata, WideCandidate, to_camel_case
from streamkit.providers.provider import Sink

__all__ = [
    "CANDIDATE_FACTS",
    "ResponseMetadataReader",
    "UsageReader",
    "facts_prefix",
]

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


class UsageReader:
    """The latest count of each field.

    Counts are stored with every chunk and reported with the first one, when a candidate finishes, and when the stream
    ends without that. Reporting with each chunk would cost more than the rest of the chunk.

    Attributes:
        is_pending: counts were stored since the last report.
    """

    __slots__ = ("_has_begun", "_latest", "_sink", "is_pending")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._latest = UsageMetadata()
        self._has_begun = False
        self.is_pending: bool = False

    def store(self, counts: UsageMetadata) -> None:
        """Store the counts of a chunk."""
        latest = self._latest
        prompt, output = counts.promptTokenCount, counts.candidatesTokenCount
        if prompt is not None:
            is_count = prompt.__class__ is int and prompt
            latest.promptTokenCount = prompt if is_count else _later(prompt, latest.promptTokenCount)
        if output is not None:
            is_count = output.__class__ is int and output
            latest.candidatesTokenCount = output if is_count else _later(output, latest.candidatesTokenCount)
        if counts.thoughtsTokenCount is not None:
            latest.thoughtsTokenCount = _later(counts.thoughtsTokenCount, latest.thoughtsTokenCount)
        if counts.toolUsePromptTokenCount is not None:
            latest.toolUsePromptTokenCount = _later(counts.toolUsePromptTokenCount, latest.toolUsePromptTokenCount)
        if counts.cachedContentTokenCount is not None:
            latest.cachedContentTokenCount = _later(counts.cachedContentTokenCount, latest.cachedContentTokenCount)
        self.is_pending = True

    def report_first(self, counts: UsageMetadata) -> None:
        """Report the counts at the beginning of the response: those of the prompt are known by then."""
        if not self._has_begun:
            self._has_begun = True
            self.store(counts)
            self.report()

    def report(self, raw: Any = None) -> None:
        """Report the stored counts to the sink.

        The total "is the sum of `prompt_token_count`, `candidates_token_count`, `tool_use_prompt_token_count`, and
        `thoughts_token_count`" (https://googleapis.github.io/python-genai/genai.html, ``UsageMetadata``), so input and
        output have two parts each.

        Args:
            raw: ``usageMetadata`` as plain data; None stands for the stored counts.
        """
        latest = self._latest
        prompt, output = as_integer(latest.promptTokenCount), as_integer(latest.candidatesTokenCount)
        thoughts, tools = as_integer(latest.thoughtsTokenCount), as_integer(latest.toolUsePromptTokenCount)
        self.is_pending = False
        if prompt is None and tools is None and output is None and thoughts is None:
            return  # Vertex sends {"trafficType": ...} alone until the last chunk
        if raw is None:
            raw = {name: count for name in latest.__struct_fields__ if (count := getattr(latest, name)) is not None}
        self._sink.usage(
            Usage(
                prompt if tools is None else (prompt or 0) + tools,
                output if thoughts is None else (output or 0) + thoughts,
                thoughts,
                as_integer(latest.cachedContentTokenCount),
                None,
                raw,
            )
        )


def _later(count: Any, latest: Any) -> Any:
    """Return the count of the chunk if it is an integer, else the latest one. A zero never replaces a count."""
    return count if count.__class__ is int and (count or latest is None) else latest
