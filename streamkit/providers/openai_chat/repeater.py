"""The repetition of a plain chunk with another text, for ``frame_template``.

The conditions are those under which the parser reads a chunk as one delta and nothing else. Everything that a chunk may
contain besides is either refused here or the same in the next one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from streamkit.events import NormalizedToolChunk, ReasoningKind
from streamkit.providers.contract.sink import ChoiceSink
from streamkit.providers.openai_chat.content_reader import REASONING_DETAIL_FIELDS
from streamkit.providers.openai_chat.fields import flagged_filters
from streamkit.providers.openai_chat.schema import (
    RESPONSE_FIELDS,
    CallDelta,
    ChunkChoice,
    PlainChunk,
)

__all__ = ["UNREAD_FIELD", "find_repeater"]

#: A field that may differ from chunk to chunk and is never read.
UNREAD_FIELD = re.compile(rb'[{,] *"(?:created|obfuscation|p|token_id)" *: *(?:([0-9]+)|"([0-9A-Za-z]*)")')

_facts = attrgetter("id", "model", *RESPONSE_FIELDS)


def find_repeater(chunk: PlainChunk, sink: ChoiceSink) -> Callable[[str], None] | None:
    """Return the function that reports another text as the chunk's own was reported.

    Args:
        chunk: the chunk.
        sink: the sink of choice 0.

    Returns:
        The function; None if the chunk is anything but one delta of text, reasoning or arguments of choice 0.
    """
    choices = chunk.choices
    if not choices or len(choices) > 1 or not _has_only_delta(chunk, choices[0]):
        return None
    delta = choices[0].delta
    if delta is None or delta.refusal:
        return None
    content: Any = delta.content
    calls, reasoning = delta.tool_calls, delta.reasoning_content or delta.reasoning
    if isinstance(content, list) and not reasoning:
        reasoning = _only_thinking(content)
        content = None if reasoning else content
    if bool(content) + bool(calls) + bool(reasoning) != 1 or (delta.reasoning_details and not reasoning):
        return None
    if (content or reasoning) and (content or reasoning) in _facts(chunk):
        return None
    if content:
        return sink.text if content.__class__ is str else None
    if calls:
        return _repeat_call(sink, calls[0], _facts(chunk)) if len(calls) == 1 else None
    if reasoning.__class__ is not str:
        return None
    return _repeat_details(sink, reasoning, delta.reasoning_details) if delta.reasoning_details else sink.reasoning


def _has_only_delta(chunk: PlainChunk, choice: ChunkChoice) -> bool:
    """Return True if nothing outside of the delta is read."""
    return (
        choice.index == 0
        and choice.finish_reason is None
        and choice.usage is None
        and choice.logprobs is None
        and not flagged_filters(choice.content_filter_results)
        and chunk.usage is None
        and chunk.citations is None
        and chunk.search_results is None
        and chunk.x_groq is None
    )


def _only_thinking(content: list[Any]) -> Any:
    """Return the text of a content that is one text of thinking (Magistral); None if it is anything else."""
    part = content[0] if len(content) == 1 else None
    if not isinstance(part, dict) or part.get("type") != "thinking" or "signature" in part:
        return None
    thinking = part.get("thinking")
    item = thinking[0] if isinstance(thinking, list) and len(thinking) == 1 else None
    return item.get("text") if isinstance(item, dict) else None


def _repeat_details(sink: ChoiceSink, reasoning: Any, details: Any) -> Callable[[str], None] | None:
    """Return the same for reasoning that one typed detail repeats (OpenRouter); None if it is not of that form."""
    detail = details[0] if isinstance(details, list) and len(details) == 1 else None
    if not isinstance(detail, dict) or any(isinstance(value, (dict, list)) for value in detail.values()):
        return None
    field = next((name for name in REASONING_DETAIL_FIELDS.values() if detail.get(name)), "")
    if detail.get(field) != reasoning:
        return None
    kind: ReasoningKind = "summary" if detail.get("type") == "reasoning.summary" else "text"

    def repeat(text: str) -> None:
        sink.reasoning(text, kind)
        sink.add_metadata({"reasoning_details": [{**detail, field: text}]})

    return repeat


def _repeat_call(sink: ChoiceSink, call: CallDelta, facts: tuple[Any, ...]) -> Callable[[str], None] | None:
    """Return the same for the only call of a chunk; None if it is not of the frequent form."""
    function, key, raw_id = call.function, call.index, call.id
    if function is None or key.__class__ is not int or function.arguments.__class__ is not str:
        return None
    name = function.name
    if not (raw_id is None or raw_id.__class__ is str) or not (name is None or name.__class__ is str):
        return None
    if function.arguments in (raw_id, name, *facts):
        return None
    return lambda text: sink.tool(NormalizedToolChunk("delta", raw_id, name, None, text, key, 0))
