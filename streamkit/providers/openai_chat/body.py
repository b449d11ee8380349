"""The body of a response that is not streamed, from the chunks of its stream.

Wire: https://platform.openai.com/docs/api-reference/chat/object
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.writing.wire_output import Json

__all__ = ["build_completion"]

#: The fields of a choice that are read by themselves, or that the body has elsewhere.
_CHUNK_FIELDS = ("index", "delta", "logprobs", "finish_reason", "usage")


def build_completion(chunks: list[Json]) -> Json:
    """Return the completion that the chunks build: texts joined, the deltas of each call merged by index."""
    choices: dict[int, _Choice] = {0: _Choice(0)}
    body: Json = {}
    for chunk in chunks:
        body |= {name: value for name, value in chunk.items() if value is not None and name != "choices"}
        for part in chunk.get("choices") or ():
            number = part["index"]
            if number not in choices:
                choices[number] = _Choice(number)
            choices[number].add(part)
    return {**body, "object": "chat.completion", "choices": [choices[number].fold() for number in sorted(choices)]}


class _Choice:
    """A choice that the parts of chunks build: all deltas of a field are kept, and joined once at the end."""

    def __init__(self, number: int) -> None:
        self._fields: Json = {"index": number, "message": None, "logprobs": None, "finish_reason": None}
        self._logprobs: list[Any] = []
        self._message: dict[str, list[Any]] = {"role": ["assistant"], "content": [], "refusal": []}
        self._calls: dict[int, list[Json]] = {}

    def add(self, part: Json) -> None:
        """Add the choice of a chunk."""
        if part.get("finish_reason") is not None:
            self._fields["finish_reason"] = part["finish_reason"]
        for name, value in part.items():
            if name == "logprobs" and value is not None:
                self._logprobs.append(value)
            elif name not in _CHUNK_FIELDS:
                self._fields[name] = value
        for name, value in (part.get("delta") or {}).items():
            if name == "tool_calls":
                for call in value or ():
                    self._calls.setdefault(call["index"], []).append(call)
            elif value is not None and name != "role":
                self._message.setdefault(name, []).append(value)

    def fold(self) -> Json:
        """Return the choice."""
        message = {name: _merged(deltas) for name, deltas in self._message.items()}
        if self._calls:
            calls = (_merged(deltas) for deltas in self._calls.values())
            message["tool_calls"] = [{name: each[name] for name in each if name != "index"} for each in calls]
            message["content"] = message["content"] or None
        return {**self._fields, "message": message, "logprobs": _merged(self._logprobs)}


def _merged(deltas: list[Any]) -> Any:
    """Return the deltas of one field as one value; None if there are none."""
    if any(isinstance(each, list) for each in deltas):
        return _merged_parts([part for each in deltas for part in _as_parts(each)])
    if all(isinstance(each, str) for each in deltas):
        return "".join(deltas) if deltas else None
    if all(isinstance(each, dict) for each in deltas):
        names = dict.fromkeys(name for each in deltas for name in each)
        given = {name: [each[name] for each in deltas if each.get(name) is not None] for name in names}
        return {name: _merged(values) for name, values in given.items()}
    return deltas[-1]


def _merged_parts(parts: list[Any]) -> list[Any]:
    """Return the parts of a content, those that are deltas of one part as one part.

    Mistral's body has one part of reasoning, then one of text (https://docs.mistral.ai/capabilities/reasoning).
    """
    groups: list[list[Any]] = []
    for part in parts:
        if groups and _are_one_part(groups[-1][-1], part):
            groups[-1].append(part)
        else:
            groups.append([part])
    whole = []
    for first, *others in groups:
        part = first
        if others:
            name = first["type"]  # of the field with the deltas, too
            part = {key: value for each in (first, *others) for key, value in each.items()}
            part[name] = _merged([each[name] for each in (first, *others)])
        whole.append(part)
    return whole


def _are_one_part(before: Any, part: Any) -> bool:
    """Return True if two deltas are of one part."""
    if not isinstance(before, dict) or not isinstance(part, dict) or before.get("type") != part.get("type"):
        return False
    if before.get("type") == "text":
        return bool(before.keys() == part.keys() == {"type", "text"})
    texts = before.get("thinking"), part.get("thinking")
    return (
        before.get("type") == "thinking" and all(isinstance(each, list) for each in texts) and "signature" not in before
    )


def _as_parts(value: Any) -> list[Any]:
    """Return a content as a list of parts; a text is a part of type ``text``."""
    if isinstance(value, list):
        return value
    return [{"type": "text", "text": value}] if value else []
