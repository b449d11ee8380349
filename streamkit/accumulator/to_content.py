"""A choice as ``Content`` for history.

Opaque state goes into a block's metadata with the names of the provider, endpoint and model that made it, so that it is
replayed only there.
The module is loaded on first use: history depends on pydantic, and reading a stream does not.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from streamkit.accumulator.block import Block
from streamkit.accumulator.choice import Choice
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

__all__ = ["choice_to_content", "to_tool_call_block"]


def choice_to_content(
    choice: Choice, *, origin: dict[str, Any], response_id: str | None, turn_key: str | None
) -> Content:
    """Return the assistant's content of one choice.

    Args:
        choice: the choice.
        origin: what made it, as in ``TurnState.origin``; a part of the metadata of every block.
        response_id: the provider's id of the response.
        turn_key: the stable name of the turn.

    Incomplete and invalid calls have ``parameters={}`` and their text as ``raw_arguments`` in metadata, so that a
    history that contains them is legal for every provider.
    """
    identity = {**origin, "response_id": response_id, "turn_key": turn_key}
    metadata = {name: value for name, value in identity.items() if value is not None}
    blocks = [converted for block in choice.blocks if (converted := _to_block(block, origin)) is not None]
    return Content(speaker="ai", blocks=blocks, metadata=metadata)


def _to_block(block: Block, origin: dict[str, Any]) -> Any:
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
        call = block.detail
        if call is None:
            return ServerToolBlock(raw=block.raw, metadata=metadata)
        return ServerToolBlock(
            id=call.id, name=call.name, arguments=call.arguments, result=call.result, raw=block.raw, metadata=metadata
        )
    if block.kind == "file":
        media_type, data, url = block.detail
        if block.raw:
            metadata["raw"] = block.raw[0]
        if block.parts:
            data = _join_base64(block.parts)
        return FileBlock(media_type=media_type, data=data, url=url, metadata=metadata)
    return OpaqueBlock(raw=block.raw[0] if block.raw else None, metadata=metadata)


def _join_base64(parts: list[str]) -> str:
    """Join texts that are base64 each into one; concatenate them unchanged if one is not base64."""
    if not any(part.endswith("=") or len(part) % 4 for part in parts[:-1]):
        return "".join(parts)
    try:
        return b64encode(b"".join([b64decode(part) for part in parts])).decode("ascii")
    except ValueError:
        return "".join(parts)


def to_tool_call_block(call: ToolCall, origin: dict[str, Any]) -> ToolCallBlock:
    """Return a call as a block of history.

    Args:
        call: the call.
        origin: the metadata that names what made it: its provider, endpoint and model.
    """
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
