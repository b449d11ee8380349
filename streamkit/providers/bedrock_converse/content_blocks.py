"""The content blocks of a Converse message while it is read.

Text, reasoning and citations have no start: their first delta opens them. Blocks are told apart by their index and by
what they hold, so a delta never lands in a block of another kind (text behind a call was once glued to it:
NousResearch/hermes-agent#108200). The key that the sink gets is a number of our own, new for every block, because
gateways number every block 0 or leave the stops out (maximhq/bifrost#4262).

What is gathered is only what must be whole to be handed on: the call of a tool that the provider runs itself, its
result, encrypted reasoning, an image. It does not know of messages and their end, of canonical ids or of history.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Hashable
from typing import Any

from streamkit.calls import StreamError
from streamkit.events import NormalizedToolChunk
from streamkit.providers.bedrock_converse.schema import Json
from streamkit.providers.decoding import as_text, compact_json, read_json
from streamkit.providers.provider import Sink

__all__ = ["ContentBlockReader"]

#: Characters gathered of one block: as many as the accumulator by default allows a call's arguments.
KEPT = 8 * 1024 * 1024


class _TextParts(list[str]):
    """A text of a result, in pieces."""


class OpenBlock:
    """A block that is handed on when it is whole: ``call``, ``result``, ``redacted`` or ``image``."""

    __slots__ = ("items", "key", "kind", "raw", "size", "texts")

    def __init__(self, key: int, kind: str, raw: Json) -> None:
        self.key = key
        self.kind = kind
        self.raw = raw  # what its start said
        self.texts: list[str] = []  # pieces of one text: arguments, base64
        self.items: list[Any] = []  # a result's own content
        self.size = 0


class ContentBlockReader:
    """Tells a sink what blocks say. The dicts give the keys of open blocks by index, for the parser's short path."""

    def __init__(self, sink: Sink) -> None:
        self.texts: dict[Hashable, int] = {}
        self.thoughts: dict[Hashable, int] = {}
        self.calls: dict[Hashable, int] = {}
        self._given: dict[Hashable, tuple[int, str]] = {}  # calls whose start had an input, until a delta comes
        self._gathered: dict[Hashable, OpenBlock] = {}
        self._sink = sink
        self._choice = sink.choice(0)
        self._made = 0
        self._names: dict[str, str] = {}  # of the tools that the provider runs, by the call's id
        self._said_text = False

    @property
    def begun(self) -> bool:
        """Whether there was any block."""
        return self._made > 0

    # ------------------------------------------------------------ a block starts and stops

    def start(self, index: Any, start: Json) -> None:
        """A block begins."""
        label = _label(index)
        if any(label in there for there in (self.texts, self.thoughts, self.calls, self._given, self._gathered)):
            self._forget(label)
            self._sink.warn("block_index_reused", f"a second block starts at index {index!r}; it is a block of its own")
        tool_use, result, image = start.get("toolUse"), start.get("toolResult"), start.get("image")
        if isinstance(tool_use, dict):
            self._start_call(label, tool_use)
        elif isinstance(result, dict):
            self._gather(label, "result", {"toolUseId": result.get("toolUseId"), **result})
        elif isinstance(image, dict):
            self._gather(label, "image", dict(image))
        elif any(value is not None for value in start.values()):
            self._choice.provider_block(start)

    def stop(self, index: Any) -> None:
        """The wire says that a block is over; a text that never came has a stop, too."""
        for key in self._forget(_label(index)):
            self._choice.end_block(key)

    def end(self) -> None:
        """The message is over: blocks whose stop never came are settled, but not sealed."""
        labels = {**self.texts, **self.thoughts, **self.calls, **self._given, **self._gathered}
        for label in labels:
            self._forget(label)

    def _forget(self, label: Hashable) -> list[int]:
        """No more comes at this index: hand over what waits for that; returns the keys of blocks that were open."""
        keys = [there.pop(label) for there in (self.texts, self.thoughts, self.calls) if label in there]
        given = self._given.pop(label, None)
        if given is not None:
            key, text = given
            self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=key))
            keys.append(key)
        block = self._gathered.pop(label, None)
        if block is not None:
            self._hand_over(block)
            if block.kind == "redacted":
                keys.append(block.key)
        return keys

    def _next_key(self) -> int:
        self._made += 1
        return self._made - 1

    def _gather(self, label: Hashable, kind: str, raw: Json) -> OpenBlock:
        block = self._gathered[label] = OpenBlock(self._next_key(), kind, raw)
        return block

    def _start_call(self, label: Hashable, tool_use: Json) -> None:
        call_id, name, kind = as_text(tool_use.get("toolUseId")), as_text(tool_use.get("name")), tool_use.get("type")
        if isinstance(kind, str) and kind.endswith("_tool_use"):  # server_tool_use; Nova says tool_use of a client's
            self._gather(label, "call", dict(tool_use))
            if call_id is not None:
                self._names[call_id] = name or ""
            self._choice.server_tool(call_id, name or "", "started")
            return
        key, given = self._next_key(), tool_use.get("input")
        self._choice.tool(NormalizedToolChunk("start", call_id, name, key=key))
        if given:
            self._given[label] = key, given if isinstance(given, str) else self._written(given)
        else:
            self.calls[label] = key

    def _hand_over(self, block: OpenBlock) -> None:
        raw, text = block.raw, "".join(block.texts)
        if block.kind == "call":
            arguments = _parsed(text) if text else raw.get("input")
            raw["input"] = arguments if isinstance(arguments, dict) else {}  # else it was cut
            call_id, name = as_text(raw.get("toolUseId")), as_text(raw.get("name")) or ""
            self._choice.server_tool(call_id, name, "arguments", arguments, raw={"toolUse": raw})
        elif block.kind == "result":
            call_id, kind = as_text(raw.get("toolUseId")), as_text(raw.get("type")) or ""
            content = [{"text": "".join(item)} if isinstance(item, _TextParts) else item for item in block.items]
            raw["content"] = content
            name = self._names.get(call_id or "") or kind.removesuffix("_result")
            self._choice.server_tool(call_id, name, "result", content, raw={"toolResult": raw})
        elif block.kind == "redacted":
            redacted = {"reasoningContent": {"redactedContent": _joined(block.texts)}}
            self._choice.add_metadata({"opaque": redacted}, block.key)
        elif block.texts or raw.get("source"):
            if block.texts:
                raw["source"] = {"bytes": _joined(block.texts)}
            source = raw["source"] if isinstance(raw["source"], dict) else {}
            place = source.get("s3Location")
            url = as_text(place.get("uri")) if isinstance(place, dict) else None
            media_type = f"image/{as_text(raw.get('format')) or 'png'}"
            self._choice.file(media_type, as_text(source.get("bytes")), url, raw={"image": raw})

    # ------------------------------------------------------------ what a delta brings

    def delta(self, index: Any, delta: Json, event: Json) -> None:
        """Any delta; ``event`` is what is shown where there is no word for it."""
        label = _label(index)
        for name, value in delta.items():
            if value is not None and not self._piece(label, name, value):
                self._sink.unknown(event)

    def _piece(self, label: Hashable, name: str, value: Any) -> bool:
        """One member of a delta; False where there is no word for it."""
        if name == "text" and isinstance(value, str):
            self._emit_text(label, value)
        elif name == "toolUse" and isinstance(value, dict):
            self._arguments(label, value)
        elif name == "reasoningContent" and isinstance(value, dict):
            return self._think(label, value)
        elif name == "citation":
            if not self._said_text:
                self._choice.text("", self._text_key(label))
            self._choice.citation(value)
        elif name == "toolResult" and isinstance(value, (list, dict)):
            block = self._gathered.get(label)
            if block is None or block.kind != "result":
                return False
            self._add_result(block, value if isinstance(value, list) else [value])
        elif name == "image" and isinstance(value, dict):
            return self._add_image(label, value)
        else:
            return False
        return True

    def _text_key(self, label: Hashable) -> int:
        key = self.texts.get(label)
        if key is None:
            key = self.texts[label] = self._next_key()
        self._said_text = True
        return key

    def _emit_text(self, label: Hashable, text: str) -> None:
        if text:
            self._choice.text(text, self._text_key(label))

    def _arguments(self, label: Hashable, tool_use: Json) -> None:
        given = tool_use.get("input")
        text = given if isinstance(given, str) else "" if given is None else self._written(given)
        call_id, name = as_text(tool_use.get("toolUseId")), as_text(tool_use.get("name"))
        block = self._gathered.get(label)
        if block is not None and block.kind == "call":
            self._keep(block, text)
            return
        if label in self._given and text:  # the input of the start does not count: deltas bring it
            self.calls[label], _ = self._given.pop(label)
        if call_id and name and label not in self.calls and label not in self._given:
            self._start_call(label, {**tool_use, "input": None})
            call_id = name = None
        if text or call_id:
            # One that belongs to no call goes on all the same: the accumulator decides, and says so.
            key = self.calls.get(label, ("index", label))
            self._choice.tool(NormalizedToolChunk("delta", call_id, name, arguments_delta=text, key=key))

    def _think(self, label: Hashable, thought: Json) -> bool:
        if isinstance(thought.get("reasoningText"), dict):  # as in a whole block
            thought = {**thought, **thought["reasoningText"]}
        text, signature, redacted = thought.get("text"), thought.get("signature"), thought.get("redactedContent")
        known = False
        if isinstance(text, str) or (isinstance(signature, str) and signature):
            known = True
            key = self.thoughts.get(label)
            if key is None:
                key = self.thoughts[label] = self._next_key()
                self._choice.reasoning("", "text", key)  # it may be only a signature
            if isinstance(text, str) and text:
                self._choice.reasoning(text, "text", key)
            if isinstance(signature, str) and signature:
                self._choice.add_metadata({"signature": signature}, key)
        if isinstance(redacted, str) and redacted:
            known = True
            block = self._gathered.get(label)
            if block is None or block.kind != "redacted":
                if block is not None:
                    self._hand_over(block)
                block = self._gather(label, "redacted", {})
                self._choice.reasoning("", "text", block.key)
            self._keep(block, redacted)
        return known

    def _add_result(self, block: OpenBlock, items: list[Any]) -> None:
        for number, item in enumerate(items):
            text = item["text"] if isinstance(item, dict) and item.keys() == {"text"} else None
            if not isinstance(text, str):
                block.items.append(item)
                self._count(block, 1)
                continue
            if number or not block.items or not isinstance(block.items[-1], _TextParts):
                block.items.append(_TextParts())
            block.items[-1].append(text)  # a result's text goes on from delta to delta
            self._count(block, len(text))

    def _add_image(self, label: Hashable, image: Json) -> bool:
        block = self._gathered.get(label)
        source = image.get("source")
        if block is None or block.kind != "image" or not isinstance(source, dict):
            return False
        data = source.get("bytes")
        if isinstance(data, str):
            self._keep(block, data)
        else:
            block.raw["source"] = source
        return True

    def _keep(self, block: OpenBlock, text: str) -> None:
        block.texts.append(text)
        self._count(block, len(text))

    def _count(self, block: OpenBlock, size: int) -> None:
        block.size += size
        if block.size > KEPT:
            block.texts.clear()
            block.items.clear()
            self._sink.fail(StreamError("limit_exceeded", f"one block passed {KEPT} characters"))

    def _written(self, value: Any) -> str:
        try:
            return compact_json(value)
        except (RecursionError, TypeError, ValueError):
            self._sink.fail(StreamError("limit_exceeded", "a call's input is nested too deeply"))
            return ""

    # ------------------------------------------------------------ blocks of a message that was not streamed

    def whole(self, index: int, block: Json) -> None:
        """A whole content block, said as the stream would have said it."""
        for name, value in block.items():
            if name == "toolUse" and isinstance(value, dict):
                self.start(index, {name: {key: item for key, item in value.items() if key != "input"}})
                self._arguments(index, {"input": value.get("input")})
            elif name == "toolResult" and isinstance(value, dict):
                self.start(index, {name: {key: item for key, item in value.items() if key != "content"}})
                self._piece(index, name, value.get("content") or [])
            elif name == "image" and isinstance(value, dict):
                self.start(index, {name: {key: item for key, item in value.items() if key != "source"}})
                self._piece(index, name, value)
            elif name == "citationsContent" and isinstance(value, dict):
                for piece in _dicts(value.get("content")):
                    self._piece(index, "text", piece.get("text"))
                for citation in _dicts(value.get("citations")):
                    self._piece(index, "citation", citation)
            elif name in ("text", "reasoningContent") and self._piece(index, name, value):
                continue
            elif value is not None:
                self._choice.provider_block({name: value})
        self.stop(index)


def _label(index: Any) -> Hashable:
    label: Hashable = index
    if index is None or index.__class__ is int:
        return label
    try:
        return compact_json(index)
    except (RecursionError, TypeError, ValueError):
        return "?"


def _dicts(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _joined(pieces: list[str]) -> str:
    """Base64 that came in pieces, each of which is base64 of its own."""
    if len(pieces) > 1:
        try:
            return b64encode(b"".join(b64decode(piece, validate=True) for piece in pieces)).decode()
        except ValueError:
            pass
    return "".join(pieces)


def _parsed(text: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return text
