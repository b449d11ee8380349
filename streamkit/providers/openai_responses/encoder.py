"""An answer back to the bytes that api.openai.com would have streamed, for the embedded server.

Read again by the parser it is the same turn, opaque state byte for byte. Nothing here reads a clock: ``created_at`` is
0. It knows neither requests nor sockets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from streamkit.calls import FinishReason, Usage
from streamkit.errors import UsageError
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
from streamkit.providers.decoding import compact_json
from streamkit.providers.openai_responses.media import reasoning_item
from streamkit.providers.openai_responses.schema import Json
from streamkit.providers.provider import Traits
from streamkit.target_ids import TargetIds

__all__ = ["emit", "error_body"]

#: https://platform.openai.com/docs/guides/error-codes
_ERRORS: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
_OURS = frozenset({"provider", "model", "raw_id", "raw_arguments", "state", "item_id", "status"})


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
    """The stream that this answer would have been, one SSE event at a time.

    Args:
        content: the assistant's content; what another provider's own blocks hold is not said.
        traits: the provider's.
        response_id: the response's id.
        model: the model's name.
        finish: None and all that this wire has no word for mean ``completed``; ``length`` and ``content_filter`` are
            ``incomplete``, ``error`` is ``failed``.
        usage: its figures; None where there are none.
        piece: characters of a delta, at least 1.

    Raises:
        UsageError: ``piece`` is below 1.
    """
    if delta_size < 1:
        raise UsageError(f"piece is a number of characters, at least 1, not {delta_size!r}")
    return _Answer(traits, response_id, model, delta_size).events(content.blocks, finish, usage)


def error_body(status: int, message: str) -> Json:
    """The body with which the API answers a bad request."""
    kind, code = _ERRORS.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class _Answer:
    """One response being said."""

    def __init__(self, traits: Traits, response_id: str, model: str, delta_size: int) -> None:
        self._traits = traits
        self._response_id = response_id
        self._model = model
        self._piece = delta_size
        self._ids = TargetIds(traits.id_rule)
        self._sequence = 0
        self._output: list[Json] = []

    def events(self, blocks: Sequence[Block], finish: FinishReason | None, usage: Usage | None) -> Iterator[bytes]:
        """All of it."""
        yield self._event("response.created", response=self._response("in_progress"))
        yield self._event("response.in_progress", response=self._response("in_progress"))
        for run in self._runs(blocks):
            if isinstance(run[0], TextBlock):
                yield from self._message([block for block in run if isinstance(block, TextBlock)])
            elif isinstance(run[0], ReasoningBlock):
                yield from self._reasoning([block for block in run if isinstance(block, ReasoningBlock)])
            else:
                yield from self._block(run[0])
        yield self._end(finish, usage)

    def _end(self, finish: FinishReason | None, usage: Usage | None) -> bytes:
        fields: Json = {"output": self._output, "usage": None if usage is None else _usage(usage)}
        if finish in ("length", "content_filter"):
            fields["incomplete_details"] = {"reason": "max_output_tokens" if finish == "length" else finish}
            return self._event("response.incomplete", response=self._response("incomplete", fields))
        if finish == "error":
            fields["error"] = {"code": "server_error", "message": "The server had an error processing your request."}
            return self._event("response.failed", response=self._response("failed", fields))
        return self._event("response.completed", response=self._response("completed", fields))

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
        event = {"type": type, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        try:
            data = compact_json(event).encode()
        except UnicodeEncodeError:  # half of a surrogate pair; JSON can say it, UTF-8 cannot
            data = json.dumps(event, separators=(",", ":"), default=str).encode()
        return f"event: {type}\ndata: ".encode() + data + b"\n\n"

    # ------------------------------------------------------------ items

    def _added(self, item: Json) -> bytes:
        return self._event("response.output_item.added", output_index=len(self._output), item=item)

    def _done(self, item: Json) -> bytes:
        self._output.append(item)
        return self._event("response.output_item.done", output_index=len(self._output) - 1, item=item)

    def _whole(self, item: Json, **begun: Any) -> Iterator[bytes]:
        """An item of which nothing is streamed; *begun*: what differs at its beginning."""
        yield self._added({**item, **begun})
        yield self._done(item)

    def _runs(self, blocks: Sequence[Block]) -> Iterator[list[Block]]:
        """Blocks that stand in one item, together; every other block alone."""
        run: list[Block] = []
        for block in blocks:
            if run and not self._continues(run[0], block):
                yield run
                run = []
            run.append(block)
        if run:
            yield run

    def _continues(self, first: Block, block: Block) -> bool:
        if isinstance(first, TextBlock) and isinstance(block, TextBlock):
            return first.metadata.get("item_id") is not None and first.metadata["item_id"] == block.metadata.get(
                "item_id"
            )
        later = {"summary_index", "content_index"} & block.metadata.keys()
        return isinstance(block, ReasoningBlock) and bool(later) and reasoning_item(first) is not None

    def _block(self, block: Block) -> Iterator[bytes]:
        own = self._traits.accepts_state(block.metadata)
        if isinstance(block, ToolCallBlock):
            yield from self._call(block, own=own)
        elif isinstance(block, ServerToolBlock):
            for raw in block.raw if own else [_mcp_call(block, self._new_id("mcp"))]:
                if isinstance(raw, dict):
                    yield from self._whole(raw, status="in_progress")
        elif isinstance(block, OpaqueBlock):
            if own and isinstance(block.raw, dict):
                yield from self._whole(block.raw)
        elif isinstance(block, FileBlock) and block.data and not (own and "item_id" in block.metadata):
            yield from self._image(block.data, block.media_type or "image/png")

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}_{self._response_id.removeprefix('resp_')}_{len(self._output)}"

    def _pieces(self, text: str) -> Iterator[str]:
        for start in range(0, len(text), self._piece):
            yield text[start : start + self._piece]

    def _said(self, where: Json, name: str, field: str, text: str) -> Iterator[bytes]:
        """A text in pieces and then whole."""
        more: Json = {"logprobs": []} if name == "output_text" else {}
        for part in self._pieces(text):
            yield self._event(f"response.{name}.delta", **where, delta=part, **more)
        yield self._event(f"response.{name}.done", **where, **{field: text}, **more)

    def _message(self, blocks: list[TextBlock]) -> Iterator[bytes]:
        given, phase = blocks[0].metadata.get("item_id"), blocks[0].metadata.get("phase")
        own = self._traits.accepts_state(blocks[0].metadata)
        item_id = given if own and isinstance(given, str) else self._new_id("msg")
        item: Json = {"id": item_id, "type": "message", "status": "completed", "content": [], "role": "assistant"}
        if own and phase is not None:
            item["phase"] = phase
        yield self._added({**item, "status": "in_progress"})
        parts: list[Json] = []
        for index, block in enumerate(blocks):
            where = {"item_id": item_id, "output_index": len(self._output), "content_index": index}
            part: Json = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
            name, field = "output_text", "text"
            if block.metadata.get("refusal"):
                part, name, field = {"type": "refusal", "refusal": ""}, "refusal", "refusal"
            yield self._event("response.content_part.added", **where, part=part)
            cited = block.metadata.get("citations") if own and name == "output_text" else None
            yield from self._said(where, name, field, block.text)
            for number, citation in enumerate(cited if isinstance(cited, list) else ()):
                yield self._event(
                    "response.output_text.annotation.added", **where, annotation_index=number, annotation=citation
                )
            part = {**part, field: block.text, **({"annotations": cited} if cited else {})}
            yield self._event("response.content_part.done", **where, part=part)
            parts.append(part)
        yield self._done({**item, "content": parts})

    def _reasoning(self, blocks: list[ReasoningBlock]) -> Iterator[bytes]:
        own = self._traits.accepts_state(blocks[0].metadata)
        item = (reasoning_item(blocks[0]) if own else None) or self._new_reasoning(blocks[0])
        at = {"item_id": item.get("id"), "output_index": len(self._output)}
        yield self._added({"id": item.get("id"), "type": "reasoning", "summary": []})
        counts = {"text": 0, "summary": 0}
        for block in blocks:
            kind = "text" if block.kind == "text" else "summary"
            index, counts[kind] = counts[kind], counts[kind] + 1
            if not block.text:
                continue
            if kind == "text":
                yield from self._said({**at, "content_index": index}, "reasoning_text", "text", block.text)
                continue
            where, part = {**at, "summary_index": index}, {"type": "summary_text", "text": block.text}
            yield self._event("response.reasoning_summary_part.added", **where, part={**part, "text": ""})
            yield from self._said(where, "reasoning_summary_text", "text", block.text)
            yield self._event("response.reasoning_summary_part.done", **where, part=part)
        yield self._done(item)

    def _new_reasoning(self, block: ReasoningBlock) -> Json:
        item: Json = {"id": self._new_id("rs"), "type": "reasoning", "summary": []}
        if block.text:
            if block.kind == "text":
                item["content"] = [{"type": "reasoning_text", "text": block.text}]
            else:
                item["summary"] = [{"type": "summary_text", "text": block.text}]
        if block.signature:
            item["encrypted_content"] = block.signature
        return item

    def _call(self, block: ToolCallBlock, *, own: bool) -> Iterator[bytes]:
        custom = block.kind == "custom"
        field, name = ("input", "custom_tool_call_input") if custom else ("arguments", "function_call_arguments")
        raw_id, item_id, sent = (block.metadata.get(key) for key in ("raw_id", "item_id", "raw_arguments"))
        made = self._ids.call(block.id, block.name, origin=raw_id)
        given = sent if isinstance(sent, str) else block.parameters
        text = given if isinstance(given, str) else compact_json(given)
        status = block.metadata.get("status", "completed") if own else "completed"
        if block.metadata.get("state") == "incomplete" and status != "in_progress":
            status = "incomplete"
        item: Json = {
            "id": item_id if own and isinstance(item_id, str) else self._new_id("ctc" if custom else "fc"),
            "type": "custom_tool_call" if custom else "function_call",
            "status": status,
            field: text,
            "call_id": raw_id if isinstance(raw_id, str) and raw_id else made,
            "name": block.name,
        }
        if own:
            item |= {key: value for key, value in block.metadata.items() if key not in _OURS}
        yield self._added({**item, field: "", "status": "in_progress"})
        yield from self._said({"item_id": item["id"], "output_index": len(self._output)}, name, field, text)
        yield self._done(item)

    def _image(self, data: str, media_type: str) -> Iterator[bytes]:
        if media_type.startswith("image/"):
            item = {
                "id": self._new_id("ig"),
                "type": "image_generation_call",
                "status": "completed",
                "output_format": media_type.removeprefix("image/").partition("+")[0],
                "result": data.partition(",")[2] if data.startswith("data:") else data,
            }
            yield from self._whole(item, status="in_progress", result=None)


def _mcp_call(block: ServerToolBlock, item_id: str) -> Json:
    """Another provider's tool in the form of this one's that fits any."""
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
    given, made = usage.input_tokens or 0, usage.output_tokens or 0
    prompt = {"cached_tokens": usage.cache_read_tokens or 0}
    if usage.cache_write_tokens is not None:
        prompt["cache_write_tokens"] = usage.cache_write_tokens
    return {
        "input_tokens": given,
        "input_tokens_details": prompt,
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": given + made,
    }
