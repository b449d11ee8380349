"""A reply of a script as the stream or the body of one provider.

The provider's encoder makes the frames, with the stalls and disconnects in between. This module must not depend on a
particular provider or on HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, TypeAlias

from streamkit.calls import FinishReason, Usage
from streamkit.errors import UsageError
from streamkit.framing import framer_for
from streamkit.history import Block, Content, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.provider import Provider
from streamkit.providers.writing.content_events import write_content
from streamkit.testing.script import Call, Disconnect, ErrorEvent, Item, RawBytes, Reasoning, Reply, Stall, Status

__all__ = ["Step", "StreamRenderer", "split_reads", "to_json_array"]


#: The next action of the server: send these bytes, wait, or disconnect.
Step: TypeAlias = bytes | Stall | Disconnect


@dataclass(frozen=True, slots=True)
class StreamRenderer:
    """One reply rendered as one provider's stream."""

    provider: Provider  #: the provider
    response_id: str  #: the id of the response
    model: str  #: the model of the response
    #: returns the provider's id of the n-th call; None if the wire has none or the encoder makes it
    call_id: Callable[[int], str | None]
    delta_size: int  #: characters in a delta
    #: the metadata with which the provider signs the first call of the reply
    signature: Mapping[str, Any] = field(default_factory=dict)

    def steps(self, reply: Reply, usage: Usage | None = None) -> list[Step]:
        """Return the frames of the reply, with what is between them at its position; without usage none is reported."""
        items = reply.items
        end = next((position for position, item in enumerate(items) if isinstance(item, Disconnect)), None)
        if end is not None and not _content_items(items[end:]):
            items = (*items, _MARKERS[0])  # a disconnect sends half of the next frame: without one, that of a call
        frames = self._frames(_content_items(items), reply.finish, usage)
        steps: list[Step] = []
        sent = 0
        for position, item in enumerate(items):
            if not isinstance(item, _BETWEEN_FRAMES):
                continue
            before, after = _content_items(items[:position]), _content_items(items[position:])
            marked = (self._frames([*before, marker, *after], reply.finish, usage) for marker in _MARKERS)
            frame_index = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*marked, strict=False)))
            steps += frames[sent:frame_index]
            if isinstance(item, Disconnect):
                half = b"".join(frames[frame_index : frame_index + 1])
                return [*steps, half[: len(half) // 2], item]
            if isinstance(item, ErrorEvent):
                error = item.status
                return [*steps, self.provider.error_event(error.status, error.message, error.code)]
            steps.append(item.data if isinstance(item, RawBytes) else item)
            sent = frame_index
        return steps + frames[sent:]

    def whole_body(self, reply: Reply, usage: Usage | None = None) -> list[Step] | Status:
        """Return the body of a response that is not streamed, after its pauses, or the error that it is.

        Raises:
            UsageError: the reply has RawBytes between its items.
        """
        steps: list[Step] = []
        for item in reply.items:
            if isinstance(item, ErrorEvent):
                return item.status
            if isinstance(item, RawBytes):
                raise UsageError("RawBytes within a Reply have no place in a response that is not streamed")
            if isinstance(item, Stall):
                steps.append(item)
            elif isinstance(item, Disconnect):
                break
        writer = self.provider.writer(response_id=self.response_id, model=self.model, stream=False)
        content = self.content(_content_items(reply.items))
        (body,) = write_content(writer, content, finish=reply.finish, usage=usage, delta_size=self.delta_size)
        if writer.error is not None:
            status, message, code = writer.error_fields(writer.error)
            return Status(status, message, code=code)
        if any(isinstance(item, Disconnect) for item in reply.items):
            return [*steps, body[: len(body) // 2], Disconnect()]
        return [*steps, body]

    def _frames(self, items: Iterable[Item], finish: FinishReason | None, usage: Usage | None) -> list[bytes]:
        return list(
            self.provider.emit(
                self.content(items),
                response_id=self.response_id,
                model=self.model,
                finish=finish,
                usage=usage,
                delta_size=self.delta_size,
            )
        )

    def content(self, items: Iterable[Item]) -> Content:
        """Return the items as the assistant's Content."""
        blocks: list[Block] = []
        calls = 0
        for item in items:
            match item:
                case str():
                    blocks.append(TextBlock(text=item, metadata=self._metadata()))
                case Reasoning():
                    extra = {} if item.signature is None else {"signature": item.signature}
                    blocks.append(
                        ReasoningBlock(
                            text=item.text,
                            kind=item.kind or self.provider.traits.reasoning_kind,
                            signature=item.signature,
                            metadata=self._metadata(**extra),
                        )
                    )
                case Call():
                    blocks.append(self._call(item, item.id or self.call_id(calls), calls))
                    calls += 1
                case Stall() | Disconnect() | RawBytes() | ErrorEvent():
                    pass
                case _:
                    blocks.append(item)
        metadata = self._metadata(model=self.model, response_id=self.response_id)
        return Content(speaker="ai", blocks=blocks, metadata=metadata)

    def _call(self, call: Call, raw_id: str | None, index: int) -> ToolCallBlock:
        metadata = self._metadata(raw_id=raw_id, **({} if index else self.signature))
        parameters: dict[str, Any] | str
        if not isinstance(call.arguments, str):
            parameters = json.dumps(call.arguments, ensure_ascii=False) if call.custom else dict(call.arguments)
        elif call.custom:
            parameters = call.arguments
        else:
            parameters = {}
            metadata["raw_arguments"] = call.arguments
        return ToolCallBlock(
            id=raw_id or f"{self.response_id}_{index}",
            name=call.name,
            parameters=parameters,
            kind="custom" if call.custom else "function",
            metadata=metadata,
        )

    def _metadata(self, **more: Any) -> dict[str, Any]:
        return {"provider": self.provider.name, **more}


def _content_items(items: Iterable[Item]) -> list[Item]:
    """Return the items that are content."""
    return [item for item in items if not isinstance(item, _BETWEEN_FRAMES)]


_BETWEEN_FRAMES = (Stall, Disconnect, RawBytes, ErrorEvent)

# Two calls that no script makes. A reply with the one at a position, and with the other, gives two streams; the first
# frame that differs is the frame of this position. They are calls, because every wire sends a call in its own frames.
_MARKERS = (Call("one", {"never": "read"}, id="one"), Call("other", {"never": "read"}, id="other"))


def to_json_array(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the payloads of SSE frames as one JSON array, one element in each step."""
    framer, separator = framer_for("sse"), b"["
    for step in steps:
        if isinstance(step, Disconnect):
            if framer.pending:  # the truncated frame
                yield separator + framer.pending.removeprefix(b"data:").lstrip()
            yield step
            return
        if isinstance(step, Stall):
            yield step
            continue
        for _, payload in framer.feed(step):
            yield separator + payload
            separator = b"\n,\r\n"  # as the API writes it
    yield b"[]\n" if separator == b"[" else b"\n]\n"


def split_reads(steps: Iterable[Step], size: int | None) -> Iterator[Step]:
    """Yield the same bytes in parts of *size*; only before a stall, a disconnect and the end they may be shorter."""
    if size is None:
        yield from steps
        return
    buffer = b""
    for step in steps:
        if isinstance(step, bytes):
            buffer += step
            while len(buffer) >= size:
                yield buffer[:size]
                buffer = buffer[size:]
        else:
            if buffer:
                yield buffer
            buffer = b""
            yield step
    if buffer:
        yield buffer
