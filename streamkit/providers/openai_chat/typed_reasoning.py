"""Typed reasoning, streamed in parts: of OpenRouter, LiteLLM, Databricks and SAP.

Wires: https://openrouter.ai/docs/use-cases/reasoning-tokens and https://docs.litellm.ai/docs/reasoning_content. This
module must not depend on messages.
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.contract.carried_state import is_wrapped_state
from streamkit.providers.openai_chat.content_reader import REASONING_DETAIL_FIELDS, reasoning_block_text, thinking_text

__all__ = [
    "has_wrapped_state",
    "merge_reasoning_blocks",
    "merge_reasoning_details",
    "merge_reasoning_parts",
    "merge_thinking_blocks",
    "unstreamed_details",
]


def merge_reasoning_details(details: list[Any]) -> list[Any]:
    """Return complete reasoning details from streamed ones: the deltas of one detail have the same index.

    Text after a signature is another detail, also with the same index or without one, as the index is optional.
    They must be sent back complete, because a signature is checked against the complete text
    (https://openrouter.ai/docs/use-cases/reasoning-tokens: "the entire sequence must match").
    """
    groups: list[list[Any]] = []
    for detail in details:
        if groups and _is_continuation(groups[-1], detail):
            groups[-1].append(detail)
        else:
            groups.append([detail])
    return [_merge(group) if len(group) > 1 else group[0] for group in groups]


def merge_thinking_blocks(deltas: list[Any]) -> list[Any]:
    """Return Anthropic's complete thinking blocks from streamed ones: the signature ends a block.

    They must be sent back complete and unmodified, and the ones without a signature would be refused
    (https://docs.litellm.ai/docs/reasoning_content, "Tool Calling with thinking").
    """
    blocks: list[Any] = []
    text = ""
    for delta in deltas:
        if isinstance(delta, dict) and delta.get("type") == "thinking":
            text += thinking_text(delta)
            if delta.get("signature"):
                blocks.append({**delta, "thinking": text})
                text = ""
        elif blocks and _continues_data(blocks[-1], delta):
            blocks[-1] = {**blocks[-1], "data": blocks[-1]["data"] + delta["data"]}
        else:
            blocks.append(delta)
    return blocks


def _continues_data(block: Any, delta: Any) -> bool:
    """Return True if redacted thinking continues that of a block: Portkey streams it in deltas with one index."""
    if not (isinstance(block, dict) and isinstance(delta, dict)) or "index" not in delta:
        return False
    is_text = isinstance(block.get("data"), str) and isinstance(delta.get("data"), str)
    return is_text and block.get("index") == delta["index"]


def merge_reasoning_blocks(deltas: list[Any]) -> list[Any]:
    """Return SAP's complete reasoning blocks from streamed lists: a block continues the one at the same place.

    They are sent back unchanged, to continue the reasoning (SAP/ai-sdk-js#2057).
    """
    blocks: list[Any] = []
    for delta in deltas:
        for place, block in enumerate(delta if isinstance(delta, list) else ()):
            if place == len(blocks):
                blocks.append(block)
            elif isinstance(block, dict) and isinstance(blocks[place], dict):
                text = reasoning_block_text(blocks[place]) + reasoning_block_text(block)
                known = {name: value for name, value in block.items() if value}
                blocks[place] = {**blocks[place], **known, "content": text}
    return blocks


def merge_reasoning_parts(deltas: list[Any]) -> list[Any]:
    """Return Databricks' complete reasoning parts from streamed ones: the signature ends a part.

    They must be sent back as parts of the content, and the ones without a signature have no meaning for the model
    (BerriAI/litellm#36931).
    """
    parts: list[Any] = []
    text = ""
    for delta in deltas:
        items = delta.get("summary") if isinstance(delta, dict) else None
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, dict) or item.get("type") != "summary_text":
                parts.append({**delta, "summary": [item]})
                continue
            text += item["text"] if isinstance(item.get("text"), str) else ""
            if item.get("signature"):
                parts.append({**delta, "summary": [{**item, "text": text}]})
                text = ""
    return parts


def has_wrapped_state(detail: Any) -> bool:
    """Return True for a detail with the state of another upstream, which clients of every dialect get."""
    return isinstance(detail, dict) and is_wrapped_state(detail.get("data"))


def unstreamed_details(details: list[Any], text_index: int) -> tuple[list[Any], bool]:
    """Return streamed details without their text, and whether all signatures are among them.

    A writer has sent the text already, as one detail. So the signature of one text has the index of this detail; those
    of several texts would be wrong for the joined text.
    """
    merged = merge_reasoning_details(details)
    signed = [detail for detail in merged if _streamed_field(detail) is not None and detail.get("signature")]
    is_one = sum(_streamed_field(detail) is not None for detail in merged) == 1
    unstreamed = []
    for detail in merged:
        field = _streamed_field(detail)
        if field is None:
            unstreamed.append(detail)
        elif is_one and signed:
            unstreamed.append({**{name: value for name, value in detail.items() if name != field}, "index": text_index})
    return unstreamed, is_one or not signed


def _streamed_field(detail: Any) -> str | None:
    """Return the field of a detail with its text; None if it has none."""
    fields = REASONING_DETAIL_FIELDS.values() if isinstance(detail, dict) else ()
    return next((field for field in fields if detail.get(field)), None)


def _is_continuation(group: list[Any], detail: Any) -> bool:
    first = group[0]
    return (
        isinstance(first, dict)
        and isinstance(detail, dict)
        and detail.get("type") in list(REASONING_DETAIL_FIELDS)  # a list: the type may be unhashable
        and all(first.get(name) == detail.get(name) for name in ("type", "index"))
        and not (_streamed_field(detail) and any(each.get("signature") for each in group))
    )


def _merge(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for delta in deltas:
        merged |= {name: value for name, value in delta.items() if value is not None or name not in merged}
    field = REASONING_DETAIL_FIELDS[merged["type"]]
    texts = [delta[field] for delta in deltas if isinstance(delta.get(field), str)]
    if texts:
        merged[field] = "".join(texts)
    return merged
