"""The fields of a chat chunk that no event describes: facts about the response, and fields that are unknown.

They are searched only in a chunk that is not of the plain form (``schema.PlainChunk``), as plain data.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from streamkit.providers.openai_chat import schema
from streamkit.providers.sink import Sink
from streamkit.providers.unknown_fields import has_value, report_unknown_fields

__all__ = ["report_other_fields"]


def _known_fields(read: type[Struct], plain: type[Struct] | None = None) -> frozenset[str]:
    """Return the fields that the parser reads, and those that it is known not to need."""
    # A field that is None in the plain form, and that is not read, was only ever seen without a value.
    ignored = (
        {field.encode_name for field in structs.fields(plain) if field.type is Any} if plain is not None else set()
    )
    return frozenset(read.__struct_encode_fields__) | ignored


_CHUNK = _known_fields(schema.Chunk, schema.PlainChunk)
_CHOICE = _known_fields(schema.Choice, schema.PlainChoice)
_DELTA = _known_fields(schema.Delta, schema.PlainDelta)
_TOOL_CALL = _known_fields(schema.ToolCall)
_FUNCTION = _known_fields(schema.Function)
_CUSTOM = _known_fields(schema.Custom)

#: LiteLLM's field of what Chat Completions has no field for, at a choice, a delta, a message and a call. Since 1.106
#: most of it is sent elsewhere, too: reasoning in its own fields, the signature of a call in the call's id.
_NESTED = "provider_specific_fields"
_REPEATED = frozenset(
    {"reasoning_content", "reasoningContent", "reasoningContentBlocks", "thinking_blocks", "thought_signature"}
)


def report_other_fields(sink: Sink, chunk: dict[str, Any]) -> None:
    """Report the fields of a chunk that the parser does not read, to the sink.

    Args:
        sink: gets the facts about the response as metadata, all other fields as unknown ones.
        chunk: the chunk as plain data.
    """
    _report(sink, chunk, _CHUNK, "")
    for choice in _dicts(chunk.get("choices")):
        _report(sink, choice, _CHOICE, "choice.")
        for place in ("delta", "message"):
            delta = choice.get(place)
            if isinstance(delta, dict):
                _report(sink, delta, _DELTA, f"{place}.")
                for function in _dicts(delta.get("function_call")):
                    _report(sink, function, _FUNCTION, "function_call.")
                for call in _dicts(delta.get("tool_calls")):
                    _report_call(sink, call)


def _report_call(sink: Sink, call: dict[str, Any]) -> None:
    _report(sink, call, _TOOL_CALL, "tool_call.")
    for function in _dicts(call.get("function")):
        _report(sink, function, _FUNCTION, "tool_call.function.")
    for custom in _dicts(call.get("custom")):
        _report(sink, custom, _CUSTOM, "tool_call.custom.")


def _report(sink: Sink, value: dict[str, Any], known: frozenset[str], place: str) -> None:
    if known.issuperset(value):
        return
    nested = value.get(_NESTED)
    if isinstance(nested, dict):
        repeated = _REPEATED.union(("thought_signatures",)) if value.get("tool_calls") else _REPEATED
        _report_nested(sink, nested, repeated, f"{place}{_NESTED}.")
        known = known.union((_NESTED,))
    facts = {name: value[name] for name in schema.RARE_RESPONSE_FIELDS if has_value(value.get(name))}
    if facts:
        sink.add_response_metadata(facts)
        known = known.union(facts)
    report_unknown_fields(sink, value, known, place)


def _report_nested(sink: Sink, fields: dict[str, Any], known: frozenset[str], place: str) -> None:
    """Report LiteLLM's further fields of an object, except those that repeat others."""
    facts = {name: fields[name] for name in schema.CHOICE_RESPONSE_FIELDS if has_value(fields.get(name))}
    if facts:
        sink.add_response_metadata(facts)
    report_unknown_fields(sink, fields, known.union(facts), place)


def _dicts(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a field that is an object or a list of objects."""
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    return [element for element in values if isinstance(element, dict)]
