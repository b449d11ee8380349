"""The content blocks of a Converse message: those that are buffered, and how their events are read.

Text, reasoning and citations have no start event: their first delta opens them. A block is identified by its index and
its kind, so a delta never gets into a block of another kind (elsewhere text behind a call was appended to the call:
NousResearch/hermes-agent#108200). The key that the sink gets is a number of this reader, new for every block, because
gateways give every block the index 0 or send no stop events (maximhq/bifrost#4262).

Buffered is only what must be complete to be reported: the call of a tool that the provider runs itself, its result,
encrypted reasoning, an image. This module must not depend on messages and their end, on canonical ids or on history.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Hashable
from typing import Any, Literal, TypeAlias

from streamkit.events import NormalizedToolChunk
from streamkit.ids import normalize_index
from streamkit.json_text import json_size
from streamkit.providers.bedrock_converse.schema import Json
from streamkit.providers.decoding.decoding import (
    BLOCK_SIZE,
    PART_SIZE,
    arguments_as_text,
    as_text,
    parse_json_or_text,
    report_unknown_fields,
)
from streamkit.providers.provider import Sink

__all__ = ["ConverseBlockReader"]

_BufferedKind: TypeAlias = Literal["server_call", "server_result", "redacted", "image"]
#: The fields of a call and of reasoning, in their start events, deltas and complete blocks; a call's name and type are
#: in a delta of gateways that send no start.
_MEMBER_FIELDS = {
    "toolUse": frozenset({"toolUseId", "name", "type", "input"}),
    "reasoningContent": frozenset({"text", "signature", "redactedContent", "reasoningText"}),
}


class _TextParts(list[str]):
    """One text of a result, in parts."""


class _BufferedBlock:
    """A block that is buffered until it is complete.

    Attributes:
        key: The sink's key of the block.
        kind: What it is.
        raw: The body of its start event.
        texts: The parts of its one text: arguments or base64.
        items: The content of a result.
    """

    __slots__ = ("items", "key", "kind", "raw", "texts")

    def __init__(self, key: int, kind: _BufferedKind, raw: Json) -> None:
        self.key = key
        self.kind = kind
        self.raw = raw
        self.texts: list[str] = []
        self.items: list[Any] = []


class ConverseBlockReader:
    """A reader that reports blocks to a sink.

    Attributes:
        text_keys: The keys of open text blocks by index, for the parser's fast path.
        reasoning_keys: Those of open reasoning blocks.
        call_keys: Those of open calls.
        block_count: The number of blocks that have started.
    """

    def __init__(self, sink: Sink) -> None:
        self.text_keys: dict[Hashable, int] = {}
        self.reasoning_keys: dict[Hashable, int] = {}
        self.call_keys: dict[Hashable, int] = {}
        # The key and input of calls whose start event has an input, until a delta comes.
        self._start_inputs: dict[Hashable, tuple[int, str]] = {}
        self._buffered: dict[Hashable, _BufferedBlock] = {}
        self._sink = sink
        self._choice = sink.choice(0)
        self.block_count: int = 0
        self._server_tool_names: dict[str, str] = {}  # by the call's id
        self._has_text = False

    # ------------------------------------------------------------ a block starts and stops

    def start(self, index: Any, start: Json) -> None:
        """Start a block; ``start`` is the body of its start event."""
        label = normalize_index(index)
        if any(label in blocks for blocks in self._open_blocks()):
            self._close_at(label)
            self._sink.warn("block_index_reused", f"a second block at index {index!r} is read as a block of its own")
        tool_use, result, image = start.get("toolUse"), start.get("toolResult"), start.get("image")
        if isinstance(tool_use, dict):
            report_unknown_fields(self._sink, tool_use, _MEMBER_FIELDS["toolUse"], "toolUse.")
            self._start_call(label, tool_use)
        elif isinstance(result, dict):
            self._open_buffered(label, "server_result", {"toolUseId": result.get("toolUseId"), **result})
        elif isinstance(image, dict):
            self._open_buffered(label, "image", dict(image))
        elif any(value is not None for value in start.values()):
            self._choice.provider_block(start)

    def stop(self, index: Any) -> None:
        """End the blocks at an index; an empty text has a stop event too, and no block."""
        for key in self._close_at(normalize_index(index)):
            self._choice.end_block(key)

    def end(self) -> None:
        """Close the blocks of a message that ends without their stop events, without an end of each block."""
        for label in dict.fromkeys(label for blocks in self._open_blocks() for label in blocks):
            self._close_at(label)

    def _open_blocks(self) -> tuple[dict[Hashable, Any], ...]:
        return self.text_keys, self.reasoning_keys, self.call_keys, self._start_inputs, self._buffered

    def _close_at(self, label: Hashable) -> list[int]:
        """Close the blocks at an index, report the data that waited for it, and return the keys to end."""
        open_keys = (self.text_keys, self.reasoning_keys, self.call_keys)
        keys = [keys_by_label.pop(label) for keys_by_label in open_keys if label in keys_by_label]
        start_input = self._start_inputs.pop(label, None)
        if start_input is not None:
            key, text = start_input
            self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=key))
            keys.append(key)
        block = self._buffered.pop(label, None)
        if block is not None:
            self._report_buffered(block)
            if block.kind == "redacted":
                keys.append(block.key)
        return keys

    def _next_key(self) -> int:
        self.block_count += 1
        return self.block_count - 1

    def _open_buffered(self, label: Hashable, kind: _BufferedKind, raw: Json) -> _BufferedBlock:
        self._sink.keep(BLOCK_SIZE + json_size(raw))
        block = self._buffered[label] = _BufferedBlock(self._next_key(), kind, raw)
        return block

    def _start_call(self, label: Hashable, tool_use: Json) -> None:
        call_id, name = as_text(tool_use.get("toolUseId")), as_text(tool_use.get("name"))
        use_type = tool_use.get("type")
        if isinstance(use_type, str) and use_type.endswith("_tool_use"):  # server_tool_use; Nova's own calls: tool_use
            self._open_buffered(label, "server_call", dict(tool_use))
            if call_id is not None:
                self._server_tool_names[call_id] = name or ""
            self._choice.server_tool(call_id, name or "", "started")
            return
        key, arguments = self._next_key(), tool_use.get("input")
        self._choice.tool(NormalizedToolChunk("start", call_id, name, key=key))
        if arguments:
            text = arguments_as_text(arguments, self._sink)
            self._sink.keep(len(text))
            self._start_inputs[label] = key, text
        else:
            self.call_keys[label] = key

    def _report_buffered(self, block: _BufferedBlock) -> None:
        raw, text = block.raw, "".join(block.texts)
        if block.kind == "server_call":
            arguments = parse_json_or_text(text) if text else raw.get("input")
            raw["input"] = arguments if isinstance(arguments, dict) else {}  # truncated arguments are text
            self._choice.server_tool(*_id_and_name(raw), "arguments", arguments, raw={"toolUse": raw})
        elif block.kind == "server_result":
            call_id, result_type = as_text(raw.get("toolUseId")), as_text(raw.get("type")) or ""
            content = [{"text": "".join(item)} if isinstance(item, _TextParts) else item for item in block.items]
            raw["content"] = content
            name = self._server_tool_names.get(call_id or "") or result_type.removesuffix("_result")
            self._choice.server_tool(call_id, name, "result", content, raw={"toolResult": raw})
        elif block.kind == "redacted":
            redacted = {"reasoningContent": {"redactedContent": _join_base64(block.texts)}}
            self._choice.add_metadata({"opaque": redacted}, block.key)
        elif block.texts or raw.get("source"):
            if block.texts:
                raw["source"] = {"bytes": _join_base64(block.texts)}
            source = raw["source"] if isinstance(raw["source"], dict) else {}
            location = source.get("s3Location")
            url = as_text(location.get("uri")) if isinstance(location, dict) else None
            media_type = f"image/{as_text(raw.get('format')) or 'png'}"
            self._choice.file(media_type, as_text(source.get("bytes")), url, raw={"image": raw})

    # ------------------------------------------------------------ deltas

    def delta(self, index: Any, delta: Json, event: Json) -> None:
        """Read a delta of any kind; ``event`` is reported, once, if it has members of an unknown one."""
        label, is_unknown = normalize_index(index), False
        for name, value in delta.items():
            if value is not None and not self._read_member(label, name, value):
                is_unknown = True
            elif name in _MEMBER_FIELDS and isinstance(value, dict):
                report_unknown_fields(self._sink, value, _MEMBER_FIELDS[name], f"{name}.")
        if is_unknown:
            self._sink.unknown(event)

    def _read_member(self, label: Hashable, name: str, value: Any) -> bool:
        """Read one member of a delta; return False if it is unknown."""
        if name == "text" and isinstance(value, str):
            if value:
                self._choice.text(value, self._text_key(label))
        elif name == "toolUse" and isinstance(value, dict):
            self._read_arguments(label, value)
        elif name == "reasoningContent" and isinstance(value, dict):
            return self._read_reasoning(label, value)
        elif name == "citation":
            if not self._has_text:
                self._choice.text("", self._text_key(label))
            self._choice.citation(value, self.text_keys.get(label))
        elif name == "toolResult" and isinstance(value, (list, dict)):
            block = self._buffered.get(label)
            if block is None or block.kind != "server_result":
                return False
            self._add_result(block, value if isinstance(value, list) else [value])
        elif name == "image" and isinstance(value, dict):
            return self._add_image(label, value)
        else:
            return False
        return True

    def _text_key(self, label: Hashable) -> int:
        self._has_text = True
        key = self.text_keys.get(label)
        if key is None:
            key = self.text_keys[label] = self._next_key()
        return key

    def _read_arguments(self, label: Hashable, tool_use: Json) -> None:
        text = arguments_as_text(tool_use.get("input"), self._sink)
        call_id, name = as_text(tool_use.get("toolUseId")), as_text(tool_use.get("name"))
        block = self._buffered.get(label)
        if block is not None and block.kind == "server_call":
            if text:
                self._buffer(block, text)
                self._choice.server_tool_delta(*_id_and_name(block.raw), text)
            return
        if label in self._start_inputs and text:  # the input of the start does not count once deltas come
            self.call_keys[label], _ = self._start_inputs.pop(label)
        if call_id and name and label not in self.call_keys and label not in self._start_inputs:
            self._start_call(label, {**tool_use, "input": None})
            call_id = name = None
        if text or call_id:
            # A delta without a call is passed on too: the accumulator assigns it or warns.
            key = self.call_keys.get(label, ("index", label))
            self._choice.tool(NormalizedToolChunk("delta", call_id, name, arguments_delta=text, key=key))

    def _read_reasoning(self, label: Hashable, reasoning: Json) -> bool:
        if isinstance(reasoning.get("reasoningText"), dict):  # as in a complete block
            reasoning = {**reasoning, **reasoning["reasoningText"]}
        text, signature = reasoning.get("text"), reasoning.get("signature")
        has_signature = isinstance(signature, str) and bool(signature)
        if isinstance(text, str) or has_signature:
            key = self.reasoning_keys.get(label)
            if key is None:
                key = self.reasoning_keys[label] = self._next_key()
                self._choice.reasoning("", "text", key)  # opens a block that may be only a signature
            if isinstance(text, str) and text:
                self._choice.reasoning(text, "text", key)
            if has_signature:
                self._choice.add_metadata({"signature": signature}, key)
        redacted = reasoning.get("redactedContent")
        if not isinstance(redacted, str) or not redacted:
            return isinstance(text, str) or has_signature
        block = self._buffered.get(label)
        if block is None or block.kind != "redacted":
            if block is not None:
                self._report_buffered(block)
            block = self._open_buffered(label, "redacted", {})
            self._choice.reasoning("", "text", block.key)
        self._buffer(block, redacted)
        return True

    def _add_result(self, block: _BufferedBlock, items: list[Any]) -> None:
        for number, item in enumerate(items):
            text = item["text"] if isinstance(item, dict) and item.keys() == {"text"} else None
            if not isinstance(text, str):
                block.items.append(item)
                self._add_size(block, json_size(item))
                continue
            if number or not block.items or not isinstance(block.items[-1], _TextParts):
                block.items.append(_TextParts())
            block.items[-1].append(text)  # a delta's first text continues the last text of the result
            self._add_size(block, len(text))

    def _add_image(self, label: Hashable, image: Json) -> bool:
        block = self._buffered.get(label)
        source = image.get("source")
        if block is None or block.kind != "image" or not isinstance(source, dict):
            return False
        data = source.get("bytes")
        if isinstance(data, str):
            self._buffer(block, data)
        else:
            self._sink.keep(json_size(source))
            block.raw["source"] = source
        return True

    def _buffer(self, block: _BufferedBlock, text: str) -> None:
        block.texts.append(text)
        self._add_size(block, len(text))

    def _add_size(self, block: _BufferedBlock, size: int) -> None:
        if not self._sink.keep(PART_SIZE + size):
            block.texts.clear()
            block.items.clear()

    # ------------------------------------------------------------ blocks of a message that was not streamed

    def read_complete(self, index: int, block: Json) -> None:
        """Read a complete content block; the sink gets the same calls as from a stream."""
        for name, value in block.items():
            if name == "toolUse" and isinstance(value, dict):
                self.start(index, {name: _without(value, "input")})
                if (server_call := self._buffered.get(index)) is not None:
                    server_call.raw["input"] = value.get("input")
                else:
                    self._read_arguments(index, {"input": value.get("input")})
            elif name == "toolResult" and isinstance(value, dict):
                self.start(index, {name: _without(value, "content")})
                self._read_member(index, name, value.get("content") or [])
            elif name == "image" and isinstance(value, dict):
                self.start(index, {name: _without(value, "source")})
                self._read_member(index, name, value)
            elif name == "citationsContent" and isinstance(value, dict):
                for part in _dicts(value.get("content")):
                    self._read_member(index, "text", part.get("text"))
                for citation in _dicts(value.get("citations")):
                    self._read_member(index, "citation", citation)
            elif name in ("text", "reasoningContent") and self._read_member(index, name, value):
                continue
            elif value is not None:
                self._choice.provider_block({name: value})
        self.stop(index)


def _id_and_name(tool_use: Json) -> tuple[str | None, str]:
    return as_text(tool_use.get("toolUseId")), as_text(tool_use.get("name")) or ""


def _without(body: Json, name: str) -> Json:
    return {key: value for key, value in body.items() if key != name}


def _dicts(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _join_base64(parts: list[str]) -> str:
    """Join parts that are separately base64 into one base64 text; join any other parts as text."""
    if len(parts) > 1:
        try:
            return b64encode(b"".join(b64decode(part, validate=True) for part in parts)).decode()
        except ValueError:
            pass
    return "".join(parts)
