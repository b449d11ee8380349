"""The chunks of a Gemini stream as the body of a response that is not streamed (``generateContent``)."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["fold_chunks"]

Json: TypeAlias = dict[str, Any]


def fold_chunks(chunks: list[Json]) -> Json:
    """Return the response that the chunks build: adjacent texts of one kind joined, all other parts in order."""
    candidates: dict[int, Json] = {}
    body: Json = {}
    for chunk in chunks:
        body |= chunk
        for piece in chunk.get("candidates", ()):
            content: Json = {"parts": [], "role": "model"}
            candidate = candidates.setdefault(piece["index"], {"content": content})
            candidate |= {name: value for name, value in piece.items() if name != "content"}
            for part in piece["content"]["parts"]:
                _add_part(candidate["content"]["parts"], part)
    for candidate in candidates.values():
        candidate["content"]["parts"] = candidate["content"]["parts"] or [{"text": ""}]
    return {**body, "candidates": [candidates[number] for number in sorted(candidates)]} if candidates else body


def _add_part(parts: list[Json], part: Json) -> None:
    last = parts[-1] if parts else {}
    is_text = part.keys() <= {"text", "thought"}
    if is_text and not part["text"]:
        return
    if is_text and last.keys() == part.keys():
        parts[-1] = {**last, "text": last["text"] + part["text"]}
    else:
        parts.append(part)
