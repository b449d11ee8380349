"""Readers of ``content`` that is a list of parts, and of reasoning, which has several fields.

Stateless: each function passes the values of one delta to the sink. Mistral streams its thinking as parts
(https://docs.mistral.ai/capabilities/reasoning), gateways send complete messages as parts.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from streamkit.events import ReasoningKind
from streamkit.providers.contract.sink import ChoiceSink
from streamkit.providers.openai_chat.schema import Delta
from streamkit.providers.openai_chat.traits import REASONING_FIELDS

__all__ = [
    "REASONING_DETAIL_FIELDS",
    "read_content_parts",
    "read_reasoning",
    "reasoning_block_text",
    "reasoning_detail_text",
    "reasoning_part_text",
    "thinking_text",
]

_reasoning_values = attrgetter(*REASONING_FIELDS)
#: The types of ``reasoning_details`` whose text is streamed in deltas, and the field of each that contains it.
REASONING_DETAIL_FIELDS = {"reasoning.text": "text", "reasoning.summary": "summary"}


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


def read_content_parts(choice: ChoiceSink, content: Any) -> None:
    """Emit ``content`` that is a list of parts, or one part."""
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else None
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
        else:
            choice.provider_block(part)


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
