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
    """A choice that the parts of chunks build."""

    def __init__(self, number: int) -> None:
        self._message: Json = {"role": "assistant", "content": None, "refusal": None}
        self._fields: Json = {"index": number, "message": self._message, "logprobs": None, "finish_reason": None}
        self._calls: dict[int, Json] = {}

    def add(self, part: Json) -> None:
        """Add the choice of a chunk."""
        fields, message = self._fields, self._message
        if part.get("finish_reason") is not None:
            fields["finish_reason"] = part["finish_reason"]
        for name, value in part.items():
            if name == "logprobs" and value is not None:
                fields[name] = _merged(fields[name], value)
            elif name not in _CHUNK_FIELDS:
                fields[name] = value
        for name, value in part["delta"].items():
            if name == "tool_calls":
                for call in value:
                    delta = {name: value for name, value in call.items() if name != "index"}
                    index = call["index"]
                    self._calls[index] = _merged(self._calls[index], delta) if index in self._calls else delta
            elif value is not None and name != "role":
                message[name] = _merged(message.get(name), value)

    def fold(self) -> Json:
        """Return the choice."""
        if self._calls:
            self._message["tool_calls"] = list(self._calls.values())
            self._message["content"] = self._message["content"] or None
        return self._fields


def _merged(before: Any, value: Any) -> Any:
    """Return two deltas of one field as one value."""
    if before is None:
        return value
    if isinstance(before, list) or isinstance(value, list):
        parts = _as_parts(before)
        for part in _as_parts(value):
            if parts and (joined := _joined(parts[-1], part)) is not None:
                parts = [*parts[:-1], joined]
            else:
                parts = [*parts, part]
        return parts
    if isinstance(before, dict) and isinstance(value, dict):
        return before | {name: _merged(before.get(name), item) for name, item in value.items()}
    return before + value if isinstance(before, str) and isinstance(value, str) else value


def _joined(before: Any, part: Any) -> Json | None:
    """Return two deltas of one part of a content as one part; None if they are different parts.

    Mistral's body has one part of reasoning, then one of text (https://docs.mistral.ai/capabilities/reasoning).
    """
    if not isinstance(before, dict) or not isinstance(part, dict):
        return None
    kind = before.get("type")
    if kind != part.get("type"):
        return None
    if kind == "text" and before.keys() == part.keys() == {"type", "text"}:
        return {**part, "text": _merged(before["text"], part["text"])}
    texts = (before.get("thinking"), part.get("thinking"))
    if kind == "thinking" and all(isinstance(text, list) for text in texts) and "signature" not in before:
        return {**before, **part, "thinking": _merged(*texts)}
    return None


def _as_parts(value: Any) -> list[Any]:
    """Return a content as a list of parts; a text is a part of type ``text``."""
    if isinstance(value, list):
        return value
    return [{"type": "text", "text": value}] if value else []
