"""What stands in ``content`` where it is a list of parts, and reasoning, which has four places.

Stateless: each function hands on what one delta says. Mistral streams its thinking as parts
(https://docs.mistral.ai/capabilities/reasoning), gateways send whole messages so.
"""

from __future__ import annotations

from typing import Any

from streamkit.events import ReasoningKind
from streamkit.providers.openai_chat.schema import Delta
from streamkit.providers.provider import ChoiceSink

__all__ = ["read_content_parts", "read_reasoning"]


def read_reasoning(answer: ChoiceSink, delta: Delta) -> None:
    """Reasoning, once: vLLM sends it in two fields, OpenRouter in a field and again in typed details."""
    details = delta.reasoning_details if isinstance(delta.reasoning_details, list) else []
    kind: ReasoningKind = "text"
    text = delta.reasoning_content if delta.reasoning_content.__class__ is str else None
    text = text or (delta.reasoning if delta.reasoning.__class__ is str else None)
    parts: list[str] = []
    for detail in details:
        if isinstance(detail, dict):
            piece = detail.get("text") or detail.get("summary")
            if piece.__class__ is str:
                parts.append(piece)
                if detail.get("type") == "reasoning.summary":
                    kind = "summary"
    if not text:
        text = "".join(parts)
    if text or details:
        answer.reasoning(text or "", kind)
    if details:
        answer.add_metadata({"reasoning_details": details})


def read_content_parts(answer: ChoiceSink, content: Any) -> None:
    """``content`` that is a list of parts, or one part."""
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else None
        if part.__class__ is str:
            answer.text(part)
        elif kind in ("text", "output_text") and isinstance(part.get("text"), str):
            answer.text(part["text"])
        elif kind == "thinking":
            _read_thinking(answer, part)
        elif kind == "refusal" and isinstance(part.get("refusal"), str):
            answer.refusal(part["refusal"])
        elif kind == "reference":
            answer.citation(part)
        else:
            answer.provider_block(part)


def _read_thinking(answer: ChoiceSink, part: dict[str, Any]) -> None:
    inner = part.get("thinking")
    for piece in inner if isinstance(inner, list) else [inner]:
        text = piece.get("text") if isinstance(piece, dict) else piece
        if isinstance(text, str):
            if text:
                answer.reasoning(text)
        elif piece is not None:
            answer.citation(piece)  # a reference or tool_reference chunk
    if isinstance(part.get("signature"), str):
        answer.reasoning("")  # a signature may come alone
        answer.add_metadata({"signature": part["signature"]})
