"""The blocks of a message in their rare forms: reasoning in several fields, parts of a content, and calls.

The functions that read pass the values of one delta to the sink, and keep no state. Mistral streams its thinking as
parts (https://docs.mistral.ai/capabilities/reasoning), gateways send complete messages as parts. Typed reasoning of
OpenRouter, LiteLLM, Databricks and SAP is streamed in deltas and must be sent back complete, so the second half merges
them (https://openrouter.ai/docs/use-cases/reasoning-tokens, https://docs.litellm.ai/docs/reasoning_content).

This module must not depend on messages.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from streamkit.calls import CallKind
from streamkit.events import NormalizedToolChunk, ReasoningKind
from streamkit.ids import normalize_index
from streamkit.providers.contract.rendered import is_wrapped_state
from streamkit.providers.contract.sink import ChoiceSink
from streamkit.providers.decoding.decoding import as_text, compact_json
from streamkit.providers.openai_chat.schema import CallDelta, Delta
from streamkit.providers.openai_chat.traits import REASONING_FIELDS

__all__ = [
    "REASONING_DETAIL_FIELDS",
    "call_arguments",
    "has_wrapped_state",
    "merge_reasoning_blocks",
    "merge_reasoning_details",
    "merge_reasoning_parts",
    "merge_thinking_blocks",
    "read_content_parts",
    "read_irregular_call",
    "read_reasoning",
    "reasoning_block_text",
    "reasoning_detail_text",
    "reasoning_part_text",
    "thinking_text",
    "unstreamed_details",
]

#: The types of ``reasoning_details`` whose text is streamed in deltas, and the field of each that contains it.
REASONING_DETAIL_FIELDS = {"reasoning.text": "text", "reasoning.summary": "summary"}

_reasoning_values = attrgetter(*REASONING_FIELDS)


def read_reasoning(choice: ChoiceSink, delta: Delta) -> None:
    """Emit the reasoning of a delta once; nothing if it has none.

    vLLM sends it in two fields, OpenRouter in a field and in typed details, LiteLLM in a field and in the blocks of
    Anthropic (https://docs.litellm.ai/docs/reasoning_content). GitHub Copilot sends its state in a field of its own,
    with the text or in a later delta (ericc-ch/copilot-api#152). The text field of SAP's orchestration is a list of
    blocks with a text and a signature, each of which continues the one at its place in the delta before
    (``ReasoningBlock`` and ``mergeReasoningBlocks`` of @sap-ai-sdk/orchestration).
    """
    values = _reasoning_values(delta)
    if not any(values):
        return
    text = ""
    own_blocks: list[Any] = []
    *texts, details, thinking, opaque = values
    for value in texts:
        if value.__class__ is str and value:
            text = value
            break
    else:
        if any(texts):
            blocks_value = next((value for value in texts if value and isinstance(value, (list, dict))), [])
            own_blocks = blocks_value if isinstance(blocks_value, list) else [blocks_value]
            text = "".join(map(reasoning_block_text, own_blocks))
    blocks = [block for block in thinking if isinstance(block, dict)] if isinstance(thinking, list) else None
    if blocks:
        choice.reasoning(text or "".join([thinking_text(block) for block in blocks]))
        choice.add_metadata({"thinking_blocks": blocks})
    elif own_blocks:
        choice.reasoning(text)
        choice.add_metadata({"reasoning_blocks": [own_blocks]})
    elif not isinstance(details, list) or not details:
        has_opaque = isinstance(opaque, str) and bool(opaque)
        if text or has_opaque:
            choice.reasoning(text)
        if has_opaque:
            choice.add_metadata({"reasoning_opaque": opaque})
    else:
        kind: ReasoningKind = "text"
        detail_texts: list[str] = []
        for detail in details:
            if detail.__class__ is dict and (detail_text := reasoning_detail_text(detail)) is not None:
                detail_texts.append(detail_text)
                if detail.get("type") == "reasoning.summary":
                    kind = "summary"
        choice.reasoning(text or "".join(detail_texts), kind)
        choice.add_metadata({"reasoning_details": details})


def read_content_parts(choice: ChoiceSink, content: Any) -> list[Any]:
    """Emit ``content`` that is a list of parts, or one part; return what is no part, to be reported once."""
    others: list[Any] = []
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else None
        if not part:
            continue  # an empty one would take 130 times its memory as a block
        if part.__class__ is str:
            choice.text(part)
        elif kind in ("text", "output_text") and isinstance(part.get("text"), str):
            choice.text(part["text"])
        elif kind == "thinking":
            _read_thinking(choice, part)
        elif kind == "reasoning" and isinstance(part.get("summary"), list):
            choice.reasoning(reasoning_part_text(part), "summary")
            choice.add_metadata({"reasoning_parts": [part]})
        elif kind == "refusal" and isinstance(part.get("refusal"), str):
            choice.refusal(part["refusal"])
        elif kind == "reference":
            choice.citation(part)
        elif isinstance(part, dict):
            choice.provider_block(part)
        else:  # as a block ``true`` would take 70 times its memory
            others.append(part)
    return others


def _read_thinking(choice: ChoiceSink, part: dict[str, Any]) -> None:
    thinking = part.get("thinking")
    for item in thinking if isinstance(thinking, list) else [thinking]:
        text = item.get("text") if isinstance(item, dict) else item
        if isinstance(text, str):
            if text:
                choice.reasoning(text)
        elif item is not None:
            choice.citation(item)  # a reference or tool_reference chunk
    if isinstance(part.get("signature"), str):
        choice.reasoning("")  # a signature may come without text
        choice.add_metadata({"signature": part["signature"]})


def read_irregular_call(tool: Callable[[NormalizedToolChunk], None], call: CallDelta, position: int) -> None:
    """Emit a call delta that is not of the frequent form."""
    function, custom = call.function, call.custom
    is_bare = function is None and custom is None
    if is_bare and not (call.id or call.name or call.arguments or call.extra_content is not None):
        return  # padding: {"index": 0, "function": null}
    name: str | None = None
    arguments: str | None = None
    if custom is not None:
        name, arguments = as_text(custom.name), call_arguments(custom.input)
    else:
        fields = call if function is None else function
        name, arguments = as_text(fields.name), call_arguments(fields.arguments)
    metadata = {"extra_content": call.extra_content} if call.extra_content is not None else None
    kind: CallKind = "custom" if custom is not None or call.type == "custom" else "function"
    key = normalize_index(call.index)
    tool(NormalizedToolChunk("delta", as_text(call.id), name, None, arguments, key, position, kind, None, metadata))


def call_arguments(value: Any) -> str | None:
    """Return arguments as text. Some servers send them as an object (Mistral's older models, Ollama's shim)."""
    if value is None or value.__class__ is str:
        return value or None
    return compact_json(value)


# ---------------------------------------------------------------- the texts of typed reasoning


def reasoning_detail_text(detail: dict[str, Any]) -> str | None:
    """Return the text of one entry of ``reasoning_details``, or None if it has none (an encrypted one)."""
    text = None
    for field in REASONING_DETAIL_FIELDS.values():
        text = detail.get(field)
        if text:
            break
    return text if isinstance(text, str) else None


def reasoning_block_text(block: Any) -> str:
    """Return the text of one of SAP's reasoning blocks; it is empty if the block has only a signature."""
    text = (block.get("content") or block.get("text")) if isinstance(block, dict) else block
    return text if isinstance(text, str) else ""


def thinking_text(block: dict[str, Any]) -> str:
    """Return the text of one of LiteLLM's ``thinking_blocks``; it is empty if the block is redacted."""
    text = block.get("thinking")
    return text if isinstance(text, str) else ""


def reasoning_part_text(part: dict[str, Any]) -> str:
    """Return the text of one of Databricks' parts of type ``reasoning``; it is empty if the part is encrypted.

    https://docs.databricks.com/aws/en/machine-learning/model-serving/query-reason-models
    """
    items = [item.get("text") for item in part["summary"] if isinstance(item, dict)]
    return "".join([text for text in items if isinstance(text, str)])


# ---------------------------------------------------------------- typed reasoning that is sent back


def merge_reasoning_details(details: list[Any]) -> list[Any]:
    """Return complete reasoning details from streamed ones: the deltas of one detail have the same index.

    Text after a signature is another detail, also with the same index or without one, as the index is optional.
    They must be sent back complete, because a signature is checked against the complete text
    (https://openrouter.ai/docs/use-cases/reasoning-tokens: "the entire sequence must match").
    """
    groups: list[list[Any]] = []
    is_signed = False  # the last group
    for detail in details:
        first = groups[-1][0] if groups else None
        if (
            isinstance(first, dict)
            and isinstance(detail, dict)
            and detail.get("type") in list(REASONING_DETAIL_FIELDS)  # a list: the type may be unhashable
            and all(first.get(name) == detail.get(name) for name in ("type", "index"))
            and not (is_signed and _streamed_field(detail))
        ):
            groups[-1].append(detail)
        else:
            groups.append([detail])
            is_signed = False
        is_signed = is_signed or (isinstance(detail, dict) and bool(detail.get("signature")))
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
            continue
        last = blocks[-1] if blocks else None
        if isinstance(last, dict) and isinstance(delta, dict) and "index" in delta:
            before, data = last.get("data"), delta.get("data")
            if last.get("index") == delta["index"] and isinstance(before, str) and isinstance(data, str):
                blocks[-1] = {**last, "data": before + data}  # Portkey streams redacted thinking in deltas of one index
                continue
        blocks.append(delta)
    return blocks


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


def _merge(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for delta in deltas:
        merged |= {name: value for name, value in delta.items() if value is not None or name not in merged}
    field = REASONING_DETAIL_FIELDS[merged["type"]]
    texts = [delta[field] for delta in deltas if isinstance(delta.get(field), str)]
    if texts:
        merged[field] = "".join(texts)
    return merged
