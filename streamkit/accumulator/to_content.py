"""An answer as ``Content``: what was gathered, ready for history.

What a block carries from its provider stands in its metadata beside the provider's name, so that it is replayed only
where it belongs. Loaded on first use: history is pydantic, and a stream alone needs none.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from streamkit.accumulator.choice import Block, Choice
from streamkit.calls import ToolCall
from streamkit.history import (
    Content,
    FileBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
)

__all__ = ["to_tool_call_block", "choice_to_content"]


def choice_to_content(
    answer: Choice, *, provider: str, model: str | None, response_id: str | None, turn_key: str | None
) -> Content:
    """The assistant's content of one answer.

    Incomplete and invalid calls have ``parameters={}`` and their text as ``raw_arguments`` in metadata, so that a
    history holding them is legal everywhere.
    """
    about = {"provider": provider, "model": model, "response_id": response_id, "turn_key": turn_key}
    origin = {name: value for name, value in about.items() if name in ("provider", "model") and value is not None}
    blocks = [made for block in answer.blocks if (made := _block(block, origin)) is not None]
    return Content(
        speaker="ai", blocks=blocks, metadata={name: value for name, value in about.items() if value is not None}
    )


def _block(block: Block, origin: dict[str, Any]) -> Any:
    metadata = {**origin, **block.metadata}
    if block.call is not None:
        return to_tool_call_block(block.call.snapshot(), origin)
    if block.kind == "text":
        if block.citations:
            metadata["citations"] = block.citations
        return TextBlock(text=block.text, metadata=metadata) if block.text or block.metadata else None
    if block.kind == "refusal":
        return TextBlock(text=block.text, metadata={**metadata, "refusal": True})
    if block.kind == "reasoning":
        opaque, signature = metadata.pop("opaque", None), metadata.pop("signature", None)
        if not block.text and opaque is None and not block.metadata:
            return None
        return ReasoningBlock(text=block.text, kind=block.detail, signature=signature, opaque=opaque, metadata=metadata)
    if block.kind == "server_tool":
        made = block.detail
        if made is None:
            return ServerToolBlock(raw=block.raw, metadata=metadata)
        return ServerToolBlock(
            id=made.id, name=made.name, arguments=made.arguments, result=made.result, raw=block.raw, metadata=metadata
        )
    if block.kind == "file":
        media_type, data, url = block.detail
        if block.raw:
            metadata["raw"] = block.raw[0]
        if block.parts:
            data = _one_base64(block.parts)
        return FileBlock(media_type=media_type, data=data, url=url, metadata=metadata)
    return OpaqueBlock(raw=block.raw[0] if block.raw else None, metadata=metadata)


def _one_base64(pieces: list[str]) -> str:
    """Pieces that are base64 each, as one; joined as they are where one is not."""
    if not any(piece.endswith("=") or len(piece) % 4 for piece in pieces[:-1]):
        return "".join(pieces)
    try:
        return b64encode(b"".join([b64decode(piece) for piece in pieces])).decode("ascii")
    except ValueError:
        return "".join(pieces)


def to_tool_call_block(call: ToolCall, origin: dict[str, Any]) -> ToolCallBlock:
    """A call as history holds it, with what its provider wants back; ``origin`` says who that is."""
    metadata = {**origin, **call.metadata}
    if call.raw_id is not None:
        metadata["raw_id"] = call.raw_id
    if call.state == "complete":
        parameters = call.arguments
    else:
        parameters = call.arguments_text if call.kind == "custom" else {}
        metadata["raw_arguments"] = call.arguments_text
        metadata["state"] = call.state
    return ToolCallBlock(id=call.id, name=call.name, parameters=parameters, kind=call.kind, metadata=metadata)
