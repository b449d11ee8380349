"""A choice as ``Content`` for history.

Opaque state goes into a block's metadata with the names of the provider, endpoint and model that made it, so that it is
replayed only there. All that came from the wire is made plain JSON, so that a content can always be stored and read
again.
The module is loaded on first use: history depends on pydantic, and reading a stream does not.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from streamkit.accumulator.blocks import Block
from streamkit.accumulator.choice import Choice
from streamkit.accumulator.turn_state import STORED_NESTING, TurnState
from streamkit.calls import ToolCall
from streamkit.finishes import finish_row
from streamkit.history import (
    Content,
    FileBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
)
from streamkit.history.content import create_block, create_stored
from streamkit.history.stored_data import is_plain_data, to_stored_data
from streamkit.json_text import join_surrogates, nests_deeper, to_valid_json

__all__ = ["choice_to_content", "to_tool_call_block"]


def choice_to_content(choice: Choice, state: TurnState) -> Content:
    """Return the assistant's content of one choice of a turn; what made it is in the metadata of every block.

    If an error ended the turn, the content is marked as ``interrupted``: the provider keeps no item of a response that
    it has not completed, so a renderer must not refer to one by its id.
    """
    metadata: dict[str, Any] = {}
    for name in state.metadata:
        if name in state.traits.content_metadata:
            metadata[name] = to_stored_data(to_valid_json(state.metadata[name]))
    origin = {name: join_surrogates(text) for name, text in state.origin.items()}
    metadata |= origin
    if state.response_id is not None:
        metadata["response_id"] = join_surrogates(state.response_id)
    turn_key = state.turn_key or state.response_id
    if turn_key is not None:
        metadata["turn_key"] = join_surrogates(turn_key)
    is_interrupted = state.error is not None or finish_row(choice.effective_finish).is_error
    if is_interrupted:
        metadata["interrupted"] = True
    kept: list[Any] = []
    for block in choice.blocks:
        if block.kind == "opaque" and block.raw:  # the metadata is of the last one
            others = to_valid_json(block.raw[:-1])
            kept += [create_block(OpaqueBlock, raw=raw, metadata=dict(origin)) for raw in others]
        converted = _to_block(block, origin, is_cut=is_interrupted and (block.is_cut or not block.is_ended))
        if converted is not None:
            kept.append(converted)
    return create_stored(Content, speaker="ai", blocks=kept, metadata=metadata)


def _to_block(block: Block, origin: dict[str, Any], *, is_cut: bool) -> Any:
    if block.call is not None:
        return to_tool_call_block(block.call.snapshot(), origin)
    metadata = {**origin, **to_valid_json(block.metadata)} if block.metadata else dict(origin)
    raw = to_valid_json(block.raw) if block.raw else []
    if block.kind == "text":
        if block.citations:
            metadata["citations"] = to_valid_json(block.citations)
        is_kept = block.text or block.metadata or block.citations
        return create_block(TextBlock, text=block.text, metadata=metadata) if is_kept else None
    if block.kind == "refusal":
        return create_block(TextBlock, text=block.text, metadata={**metadata, "refusal": True})
    if block.kind == "reasoning":
        opaque, signature = metadata.pop("opaque", None), metadata.pop("signature", None)
        if is_cut:  # both are streamed in parts, and half of one is refused
            opaque = signature = None
        if not block.text and opaque is None and not block.metadata:
            return None
        return create_block(
            ReasoningBlock, text=block.text, kind=block.detail, signature=signature, opaque=opaque, metadata=metadata
        )
    if block.kind == "server_tool":
        call = block.server_call
        if call is None:
            return create_block(ServerToolBlock, raw=raw, metadata=metadata)
        fields = to_valid_json({"id": call.id, "name": call.name, "arguments": call.arguments, "result": call.result})
        return create_block(ServerToolBlock, **fields, raw=raw, metadata=metadata)
    if block.kind == "file":
        media_type, data, url = to_valid_json(block.detail)
        if raw:
            metadata["raw"] = raw[0]
        if block.parts:
            data = to_valid_json(_join_base64(block.parts))
        return create_block(FileBlock, media_type=media_type, data=data, url=url, metadata=metadata)
    return create_block(OpaqueBlock, raw=raw[-1] if raw else None, metadata=metadata)


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
    metadata = {**origin, **to_stored_data(to_valid_json(call.metadata))} if call.metadata else dict(origin)
    if call.raw_id is not None:
        metadata["raw_id"] = to_stored_data(call.raw_id)
    parameters: Any = {}
    if isinstance(call.arguments, (dict, str)):
        parameters = dict(call.arguments) if isinstance(call.arguments, dict) else call.arguments
    if call.state != "complete":
        raw_arguments = to_stored_data(call.arguments_text)
        parameters = raw_arguments if call.kind == "custom" else {}
        metadata |= {"raw_arguments": raw_arguments, "state": call.state}
    elif not is_plain_data(parameters):  # plain data is neither deep nor to be converted
        if nests_deeper(parameters, STORED_NESTING):  # it may run, but such JSON cannot be read again
            parameters, metadata["raw_arguments"] = {}, to_stored_data(call.arguments_text)
        else:
            parameters = to_stored_data(parameters)
    return create_stored(
        ToolCallBlock,
        id=call.id,
        name=to_stored_data(call.name),
        parameters=parameters,
        kind=call.kind,
        metadata=metadata,
    )
