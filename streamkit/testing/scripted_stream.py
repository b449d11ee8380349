"""A reply as the chunks of one wire: the frames that the provider's ``emit`` makes, with stalls and cuts between them.

This file does not know HTTP, nor any vendor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, TypeAlias

from streamkit.calls import FinishReason, Usage
from streamkit.framing import framer_for
from streamkit.history import Block, Content, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.provider import Provider
from streamkit.testing.script import Call, Disconnect, Item, Reasoning, Reply, Stall

__all__ = ["Step", "StreamRenderer", "split_reads", "to_json_array"]

#: What the server does next: send these bytes, wait, or hang up.
Step: TypeAlias = bytes | Stall | Disconnect


@dataclass(frozen=True, slots=True)
class StreamRenderer:
    """How one provider says one reply.

    Attributes:
        provider: the provider.
        response_id: the id of the answer.
        model: the model that answers.
        call_id: the provider's id of the n-th call of the reply, None where its wire has none or its ``emit`` makes it.
        delta_size: characters a delta.
        signature: the metadata with which the provider signs the first call of the reply.
    """

    provider: Provider
    response_id: str
    model: str
    call_id: Callable[[int], str | None]
    delta_size: int
    signature: Mapping[str, Any] = field(default_factory=dict)

    def steps(self, reply: Reply, usage: Usage | None = None) -> list[Step]:
        """The frames of the reply, with its stalls and its end where they belong. *usage* where it says none itself."""
        end = next((at for at, item in enumerate(reply.items) if isinstance(item, Disconnect)), None)
        items = reply.items
        if end is not None and not _spoken(items[end:]):
            items = (*items, _MARKS[0])  # half of what follows is sent; where nothing does, a call stands in for it
        figures = reply.usage or usage
        frames = self._frames(_spoken(items), reply.finish, figures)
        steps: list[Step] = []
        sent = 0
        for at, item in enumerate(items):
            if not isinstance(item, (Stall, Disconnect)):
                continue
            before, after = _spoken(items[:at]), _spoken(items[at:])
            marked = (self._frames([*before, mark, *after], reply.finish, figures) for mark in _MARKS)
            place = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*marked, strict=False)))
            steps += frames[sent:place]
            if isinstance(item, Disconnect):
                half = b"".join(frames[place : place + 1])
                return [*steps, half[: len(half) // 2], item]
            steps.append(item)
            sent = place
        return steps + frames[sent:]

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
        """What the items say, as the assistant's Content."""
        blocks: list[Block] = []
        calls = 0
        for item in items:
            match item:
                case str():
                    blocks.append(TextBlock(text=item, metadata=self._of()))
                case Reasoning():
                    extra = {} if item.signature is None else {"signature": item.signature}
                    blocks.append(
                        ReasoningBlock(
                            text=item.text, kind=item.kind, signature=item.signature, metadata=self._of(**extra)
                        )
                    )
                case Call():
                    blocks.append(self._call(item, item.id or self.call_id(calls), calls))
                    calls += 1
                case Stall() | Disconnect():
                    pass
                case _:
                    blocks.append(item)
        return Content(
            speaker="ai",
            blocks=blocks,
            metadata=self._of(model=self.model, response_id=self.response_id),
        )

    def _call(self, call: Call, raw_id: str | None, index: int) -> ToolCallBlock:
        metadata = self._of(raw_id=raw_id, **({} if index else self.signature))
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

    def _of(self, **more: Any) -> dict[str, Any]:
        return {"provider": self.provider.name, **more}


def _spoken(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if not isinstance(item, (Stall, Disconnect))]


# Two calls that no script makes. Put in one place, one and then the other, they show which frame it begins with: where
# the two streams part. Calls, because every wire lets one follow anything without joining it to what came before.
_MARKS = (Call("one", {"never": "read"}, id="one"), Call("other", {"never": "read"}, id="other"))


def to_json_array(steps: Iterable[Step]) -> Iterator[Step]:
    """The payloads of SSE frames as one JSON array, one element in each chunk."""
    framer, between = framer_for("sse"), b"["
    for step in steps:
        if isinstance(step, Disconnect):
            if framer.pending:  # half a frame
                yield between + framer.pending.removeprefix(b"data:").lstrip()
            yield step
            return
        if isinstance(step, Stall):
            yield step
            continue
        for _, payload in framer.feed(step):
            yield between + payload
            between = b"\n,\r\n"  # so the API writes it
    yield b"[]\n" if between == b"[" else b"\n]\n"


def split_reads(steps: Iterable[Step], size: int | None) -> Iterator[Step]:
    """The same bytes in chunks of *size*, whatever the frames; shorter ones only before a stall, a cut and the end."""
    if size is None:
        yield from steps
        return
    held = b""
    for step in steps:
        if isinstance(step, bytes):
            held += step
            while len(held) >= size:
                yield held[:size]
                held = held[size:]
        else:
            if held:
                yield held
            held = b""
            yield step
    if held:
        yield held
