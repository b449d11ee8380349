"""Encoder of Responses streams: a content to the bytes that api.openai.com would have streamed.

The counterpart of ``parser``: parsing the bytes again gives the same turn, opaque state byte for byte. The module must
not read a clock (``created_at`` is 0), and must not depend on requests or sockets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from streamkit.calls import FinishReason, Usage
from streamkit.history.content import (
    Block,
    Content,
    FileBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
)
from streamkit.media import normalize_data
from streamkit.providers.decoding import compact_json
from streamkit.providers.encoding import encode_sse_event, raw_call_id, split_text, text_or_json
from streamkit.providers.finish_reasons import invert_finish_reasons
from streamkit.providers.openai_errors import error_body
from streamkit.providers.openai_responses.client_outputs import client_item
from streamkit.providers.openai_responses.media import reasoning_item
from streamkit.providers.openai_responses.schema import Json
from streamkit.providers.openai_responses.traits import FINISH_REASONS
from streamkit.providers.provider import Traits
from streamkit.target_ids import TargetIds

__all__ = ["emit", "error_body", "error_event"]

_FINISH_REASON_NAMES = invert_finish_reasons(FINISH_REASONS, default="completed")

#: The metadata of a call block that is not a field of the call's item.
_NON_ITEM_METADATA = frozenset({"provider", "model", "raw_id", "raw_arguments", "state", "item_id", "status"})


def emit(
    content: Content,
    traits: Traits,
    *,
    response_id: str,
    model: str,
    finish: FinishReason | None = None,
    usage: Usage | None = None,
    delta_size: int = 16,
) -> Iterator[bytes]:
    """Return the stream of one response, an SSE event at a time.

    Args:
        content: the assistant's content. Blocks that only another provider can read are left out.
        traits: the provider's traits.
        response_id: the response's id.
        model: the model's name.
        finish: the finish reason. ``length`` and ``content_filter`` give an ``incomplete`` response, ``error`` a
            ``failed`` one, None and all others a ``completed`` one.
        usage: the token counts; None leaves them out.
        delta_size: the characters of a delta, at least 1.
    """
    return _ResponseEncoder(traits, response_id, model, delta_size).encode(content.blocks, finish, usage)


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the event that ends a stream with an error.

    https://platform.openai.com/docs/api-reference/responses-streaming/error
    """
    error = error_body(status, message, code)["error"]
    fields = {"code": error["code"], "message": message, "param": None, "sequence_number": 0}
    return encode_sse_event("error", {"type": "error", **fields})


class _ResponseEncoder:
    """An encoder of one response: it numbers the events and collects the output."""

    def __init__(self, traits: Traits, response_id: str, model: str, delta_size: int) -> None:
        self._traits = traits
        self._response_id = response_id
        self._model = model
        self._delta_size = delta_size
        self._ids = TargetIds(traits.id_rule)
        self._event_count = 0
        self._output: list[Json] = []

    def encode(self, blocks: Sequence[Block], finish: FinishReason | None, usage: Usage | None) -> Iterator[bytes]:
        """Yield the SSE events of the response."""
        yield self._event("response.created", response=self._response("in_progress"))
        yield self._event("response.in_progress", response=self._response("in_progress"))
        for group in self._item_groups(blocks):
            if isinstance(group[0], TextBlock):
                yield from self._message(cast("list[TextBlock]", group))
            elif isinstance(group[0], ReasoningBlock):
                yield from self._reasoning(cast("list[ReasoningBlock]", group))
            else:
                yield from self._block(group[0])
        yield self._last_event(finish, usage)

    def _last_event(self, finish: FinishReason | None, usage: Usage | None) -> bytes:
        status, _, reason = _FINISH_REASON_NAMES[finish or "stop"].partition(":")
        fields: Json = {"output": self._output, "usage": None if usage is None else _usage(usage)}
        if status == "incomplete":
            fields["incomplete_details"] = {"reason": reason}
        elif status == "failed":
            fields["error"] = {"code": "server_error", "message": "The server had an error processing your request."}
        return self._event(f"response.{status}", response=self._response(status, fields))

    def _response(self, status: str, fields: Json | None = None) -> Json:
        return {
            "id": self._response_id,
            "object": "response",
            "created_at": 0,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self._model,
            "output": [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": True,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": None,
            **(fields or {}),
        }

    def _event(self, type: str, **fields: Any) -> bytes:
        event = {"type": type, "sequence_number": self._event_count, **fields}
        self._event_count += 1
        return encode_sse_event(type, event)

    # ------------------------------------------------------------ items

    def _item_added(self, item: Json) -> bytes:
        return self._event("response.output_item.added", output_index=len(self._output), item=item)

    def _item_done(self, item: Json) -> bytes:
        self._output.append(item)
        return self._event("response.output_item.done", output_index=len(self._output) - 1, item=item)

    def _complete_item(self, item: Json, **initial: Any) -> Iterator[bytes]:
        """Yield an item without deltas; ``initial``: the fields that differ at its start."""
        yield self._item_added({**item, **initial})
        yield self._item_done(item)

    def _item_groups(self, blocks: Sequence[Block]) -> Iterator[list[Block]]:
        """Yield the blocks of one item together, all others alone."""
        group: list[Block] = []
        for block in blocks:
            if group and not self._is_continuation(group[0], block):
                yield group
                group = []
            group.append(block)
        if group:
            yield group

    def _is_continuation(self, first: Block, block: Block) -> bool:
        if isinstance(first, TextBlock) and isinstance(block, TextBlock):
            item_id = first.metadata.get("item_id")
            return item_id is not None and item_id == block.metadata.get("item_id")
        is_later_part = bool({"summary_index", "content_index"} & block.metadata.keys())
        return isinstance(block, ReasoningBlock) and is_later_part and reasoning_item(first) is not None

    def _is_own(self, block: Block) -> bool:
        return self._traits.accepts_state(block.metadata)

    def _block(self, block: Block) -> Iterator[bytes]:
        is_own = self._is_own(block)
        if isinstance(block, ToolCallBlock):
            yield from self._call(block)
        elif isinstance(block, ServerToolBlock):
            for raw in block.raw if is_own else [_mcp_call(block, self._new_id("mcp"))]:
                if isinstance(raw, dict):
                    yield from self._complete_item(raw, status="in_progress")
        elif isinstance(block, OpaqueBlock):
            if is_own and isinstance(block.raw, dict):
                yield from self._complete_item(block.raw)
        elif isinstance(block, FileBlock) and block.data and not (is_own and "item_id" in block.metadata):
            yield from self._image(block.data, block.media_type or "image/png")

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}_{self._response_id.removeprefix('resp_')}_{len(self._output)}"

    def _text_events(self, position: Json, name: str, field: str, text: str) -> Iterator[bytes]:
        """Yield a text in deltas and then complete."""
        logprobs: Json = {"logprobs": []} if name == "output_text" else {}
        for delta in split_text(text, self._delta_size):
            yield self._event(f"response.{name}.delta", **position, delta=delta, **logprobs)
        yield self._event(f"response.{name}.done", **position, **{field: text}, **logprobs)

    def _message(self, blocks: list[TextBlock]) -> Iterator[bytes]:
        own_id, phase = blocks[0].metadata.get("item_id"), blocks[0].metadata.get("phase")
        is_own = self._is_own(blocks[0])
        item_id = own_id if is_own and isinstance(own_id, str) else self._new_id("msg")
        item: Json = {"id": item_id, "type": "message", "status": "completed", "content": [], "role": "assistant"}
        if is_own and phase is not None:
            item["phase"] = phase
        yield self._item_added({**item, "status": "in_progress"})
        parts: list[Json] = []
        for index, block in enumerate(blocks):
            position = {"item_id": item_id, "output_index": len(self._output), "content_index": index}
            part: Json = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
            name, field = "output_text", "text"
            if block.metadata.get("refusal"):
                part, name, field = {"type": "refusal", "refusal": ""}, "refusal", "refusal"
            yield self._event("response.content_part.added", **position, part=part)
            citations = block.metadata.get("citations") if is_own and name == "output_text" else None
            yield from self._text_events(position, name, field, block.text)
            for number, citation in enumerate(citations if isinstance(citations, list) else ()):
                yield self._event(
                    "response.output_text.annotation.added", **position, annotation_index=number, annotation=citation
                )
            part = {**part, field: block.text, **({"annotations": citations} if citations else {})}
            yield self._event("response.content_part.done", **position, part=part)
            parts.append(part)
        yield self._item_done({**item, "content": parts})

    def _reasoning(self, blocks: list[ReasoningBlock]) -> Iterator[bytes]:
        own_item = reasoning_item(blocks[0]) if self._is_own(blocks[0]) else None
        item = own_item or self._new_reasoning_item(blocks[0])
        position = {"item_id": item.get("id"), "output_index": len(self._output)}
        yield self._item_added({"id": item.get("id"), "type": "reasoning", "summary": []})
        counts = {"text": 0, "summary": 0}
        for block in blocks:
            kind = "text" if block.kind == "text" else "summary"
            index, counts[kind] = counts[kind], counts[kind] + 1
            if not block.text:
                continue
            if kind == "text":
                text_position = {**position, "content_index": index}
                yield from self._text_events(text_position, "reasoning_text", "text", block.text)
                continue
            summary_position = {**position, "summary_index": index}
            part = {"type": "summary_text", "text": block.text}
            yield self._event("response.reasoning_summary_part.added", **summary_position, part={**part, "text": ""})
            yield from self._text_events(summary_position, "reasoning_summary_text", "text", block.text)
            yield self._event("response.reasoning_summary_part.done", **summary_position, part=part)
        yield self._item_done(item)

    def _new_reasoning_item(self, block: ReasoningBlock) -> Json:
        item: Json = {"id": self._new_id("rs"), "type": "reasoning", "summary": []}
        if block.text:
            if block.kind == "text":
                item["content"] = [{"type": "reasoning_text", "text": block.text}]
            else:
                item["summary"] = [{"type": "summary_text", "text": block.text}]
        if block.signature:
            item["encrypted_content"] = block.signature
        return item

    def _call(self, block: ToolCallBlock) -> Iterator[bytes]:
        asked = client_item(block) if self._is_own(block) else None
        if asked is not None:
            if block.metadata.get("state") == "incomplete":
                yield self._item_added({**asked, "status": "in_progress"})  # it has no end
            else:
                yield from self._complete_item(asked, status="in_progress")
            return
        is_own, is_custom = self._is_own(block), block.kind == "custom"
        field, name = ("input", "custom_tool_call_input") if is_custom else ("arguments", "function_call_arguments")
        raw_id, item_id = raw_call_id(block), block.metadata.get("item_id")
        raw_arguments = block.metadata.get("raw_arguments")
        target_id = self._ids.call(block.id, block.name, origin=raw_id)
        text = text_or_json(raw_arguments if isinstance(raw_arguments, str) else block.parameters)
        status = block.metadata.get("status", "completed") if is_own else "completed"
        if block.metadata.get("state") == "incomplete" and status != "in_progress":
            status = "incomplete"
        item: Json = {
            "id": item_id if is_own and isinstance(item_id, str) else self._new_id("ctc" if is_custom else "fc"),
            "type": "custom_tool_call" if is_custom else "function_call",
            "status": status,
            field: text,
            "call_id": raw_id or target_id,
            "name": block.name,
        }
        if is_own:
            item |= {key: value for key, value in block.metadata.items() if key not in _NON_ITEM_METADATA}
        yield self._item_added({**item, field: "", "status": "in_progress"})
        position = {"item_id": item["id"], "output_index": len(self._output)}
        yield from self._text_events(position, name, field, text)
        yield self._item_done(item)

    def _image(self, data: str, media_type: str) -> Iterator[bytes]:
        if media_type.startswith("image/"):
            item = {
                "id": self._new_id("ig"),
                "type": "image_generation_call",
                "status": "completed",
                "output_format": media_type.removeprefix("image/").partition("+")[0],
                "result": normalize_data(data).data,
            }
            yield from self._complete_item(item, status="in_progress", result=None)


def _mcp_call(block: ServerToolBlock, item_id: str) -> Json:
    """Return the call of another provider's server tool as an ``mcp_call``, which fits any tool."""
    output = block.result
    return {
        "id": item_id,
        "type": "mcp_call",
        "status": "completed",
        "name": block.name,
        "server_label": "server",
        "arguments": block.arguments if isinstance(block.arguments, str) else compact_json(block.arguments or {}),
        "output": output if isinstance(output, str) or output is None else compact_json(output),
        "error": None,
    }


def _usage(usage: Usage) -> Json:
    input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
    input_details = {"cached_tokens": usage.cache_read_tokens or 0}
    if usage.cache_write_tokens is not None:
        input_details["cache_write_tokens"] = usage.cache_write_tokens
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": input_details,
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": input_tokens + output_tokens,
    }
