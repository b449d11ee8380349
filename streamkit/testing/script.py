"""The script of a test's model: replies, calls, rejected requests, stalls and broken connections.

A script is written once, for all providers. The provider's encoder makes the frames of a reply, with the stalls and
disconnects in between (``StreamRenderer``). This module must not depend on a particular provider or on HTTP.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from itertools import takewhile
from typing import Any, TypeAlias

from streamkit.calls import FinishReason, Usage
from streamkit.errors import UsageError
from streamkit.events import ReasoningKind
from streamkit.framing import framer_for
from streamkit.history import (
    Block,
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
    UnknownBlock,
)
from streamkit.providers.provider import Provider

__all__ = [
    "Call",
    "Disconnect",
    "ErrorEvent",
    "Item",
    "RawBytes",
    "Reasoning",
    "Reply",
    "ReplyFactory",
    "ReplyLike",
    "Request",
    "Script",
    "ScriptPlayer",
    "Stall",
    "Status",
    "Step",
    "StreamRenderer",
    "split_reads",
    "to_json_array",
]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call.

    Attributes:
        name: the tool's name.
        arguments: the object; or text, sent unchanged (``'{"city": "Os'`` makes a truncated call).
        id: the provider's id of the call. The default has the form of the provider's ids, and is the same at every run.
        custom: whether the tool is a custom one, whose arguments are free text.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None
    custom: bool = False


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning of the model.

    Attributes:
        text: the reasoning.
        signature: the provider's signature of it, which the client must send back, if the wire has one.
        kind: the kind of reasoning; default: the one that the provider's own models stream, which its SDK shows.
    """

    text: str
    signature: str | None = None
    kind: ReasoningKind | None = None


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The connection breaks here, in the middle of a frame."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A pause of this many seconds, after which the reply continues."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RawBytes:
    """Bytes that are sent unchanged: a malformed frame, a comment, another server's stream.

    As an item of a ``Reply`` they are sent between the frames of the items around them, before the finish if nothing
    follows; a request without a stream is then refused. As a turn of the script they are the body of the response.

    Attributes:
        data: the bytes.
        content_type: of the response, if the bytes are all of it; default: that of the provider's streams.
    """

    data: bytes
    content_type: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes):
            raise UsageError(f"RawBytes contains bytes, not {type(self.data).__name__}")


_BLOCKS = (
    TextBlock,
    ImageBlock,
    FileBlock,
    ToolCallBlock,
    ToolResponseBlock,
    ReasoningBlock,
    ServerToolBlock,
    OpaqueBlock,
    UnknownBlock,
)

#: A part of a reply.
Item: TypeAlias = "str | Call | Reasoning | RawBytes | Stall | Disconnect | ErrorEvent | Block"


@dataclass(frozen=True, slots=True, init=False)
class Reply:
    """One response of the model: ``Reply("Let me look.", Call("get_weather", {"city": "Oslo"}))``.

    Args:
        items: text, ``Call``, ``Reasoning`` and blocks of ``streamkit.history``, in the order in which they are sent;
            between them ``Stall`` and ``RawBytes``; ``Disconnect`` and ``ErrorEvent`` end the response.
        finish: the finish reason; default ``tool_calls`` if there are calls, else ``stop``.
        usage: the reported tokens; by default about one for four characters. Chat Completions reports them only to
            requests that ask for them by ``stream_options``.

    Raises:
        UsageError: an item has another type.
    """

    items: tuple[Item, ...]
    finish: FinishReason | None
    usage: Usage | None

    def __init__(self, *items: Item, finish: FinishReason | None = None, usage: Usage | None = None) -> None:
        for item in items:
            if not isinstance(item, (str, Call, Reasoning, RawBytes, Stall, Disconnect, ErrorEvent, *_BLOCKS)):
                raise UsageError(
                    f"a Reply contains text, Call, Reasoning, RawBytes, Stall, Disconnect, ErrorEvent or a block of "
                    f"streamkit.history, not {type(item).__name__}: {item!r}"
                )
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "finish", finish)
        object.__setattr__(self, "usage", usage)


@dataclass(frozen=True, slots=True)
class Status:
    """A rejected request: an HTTP status, with an error body in the provider's format.

    The official SDKs repeat a request after 408, 409, 429 and 5xx by themselves, and so take the next turn of the
    script.

    Attributes:
        status: from 400 to 599.
        message: the error message; default: the status's phrase.
        retry_after: seconds, for the header of that name.
        retry: False asks the OpenAI and Anthropic SDKs not to repeat the request (their header ``x-should-retry``).
        code: the provider's own code, type or name of the error (``context_length_exceeded`` for OpenAI,
            ``ServiceQuotaExceededException`` for Bedrock); default: its usual one for that status.
    """

    status: int
    message: str = ""
    retry_after: float | None = None
    retry: bool = True
    code: str | None = None

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise UsageError(f"a Status is from 400 to 599, not {self.status!r}")


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """An error that the provider reports within the stream, under status 200; the response ends with it.

    A response that is not streamed is this error, with its status.

    Attributes:
        error: the error, as a ``Status`` would send it before the stream; text stands for a status of 500.
    """

    error: Status | str

    @property
    def status(self) -> Status:
        """The error with its status."""
        return self.error if isinstance(self.error, Status) else Status(500, self.error)


@dataclass(slots=True, eq=False)
class Request:
    """A request that the server received.

    Attributes:
        provider: the provider whose base URL was used; None if the path belongs to no provider.
        conversation: the name passed to ``base_url``, or ``""``.
        number: position among the requests of this conversation, on all base URLs, that took a turn of the script, from
            0; else -1.
        method, path, query, headers: as received; names of headers in lower case.
        json: the body; None if it is not JSON.
        status: the status of the response; 0 before it is sent.
        disconnected: whether the client closed the connection before the complete response was sent.
    """

    provider: str | None
    conversation: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    json: Any = None
    number: int = -1
    status: int = 0
    disconnected: bool = False


#: The response to one request; text stands for a reply with this text.
ReplyLike: TypeAlias = Reply | Status | RawBytes | str

#: A function that makes the response to a request.
ReplyFactory: TypeAlias = Callable[[Request], ReplyLike | Awaitable[ReplyLike]]

#: One response for each request, in order; or a function that makes all of them.
Script: TypeAlias = Sequence[ReplyLike | ReplyFactory] | ReplyLike | ReplyFactory


class ScriptPlayer:
    """The next turn of a script, for each conversation, whatever the providers of its requests.

    Raises:
        UsageError: an item of the script is not a turn.
    """

    def __init__(self, script: Script) -> None:
        self._factory = script if callable(script) else None
        if isinstance(script, (str, Reply, Status, RawBytes)):
            script = [script]
        self._turns = () if callable(script) else tuple(script)
        for turn in self._turns:
            if not callable(turn):
                _check_turn(turn)
        self._used: Counter[str] = Counter()

    async def next_turn(self, request: Request) -> Reply | Status | RawBytes:
        """Return the response to a request, and set the request's ``number``."""
        request.number = self._used[request.conversation]
        self._used[request.conversation] += 1
        if self._factory is None and request.number >= len(self._turns):
            turns = f"{len(self._turns)} turn" + ("" if len(self._turns) == 1 else "s")
            return Status(
                500,
                f"the script ends after {turns} and this is request {request.number + 1}; for a new conversation, use "
                f"another base_url({request.provider!r}, 'another')",
                retry=False,
            )
        turn = self._factory or self._turns[request.number]
        try:
            response: object = turn(request) if callable(turn) else turn
            return _check_turn(await response if isawaitable(response) else response)
        except Exception as error:
            # An error of the script: the client gets its message, and the server continues.
            message = f"{type(error).__name__}: {error}"
            return Status(500, f"the script's function for request {request.number + 1} raised {message}", retry=False)


def _check_turn(turn: object) -> Reply | Status | RawBytes:
    """Return a turn of a script as a Reply, Status or RawBytes, or raise UsageError."""
    if isinstance(turn, str):
        return Reply(turn)
    if not isinstance(turn, (Reply, Status, RawBytes)):
        hint = "; put it into a Reply" if isinstance(turn, (Call, Reasoning, Stall, Disconnect, ErrorEvent)) else ""
        raise UsageError(
            f"a turn must be a Reply, a Status, RawBytes, text, or a function of the request, not {turn!r}{hint}"
        )
    return turn


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
        (body,) = self._frames(_content_items(reply.items), reply.finish, usage, stream=False)
        if any(isinstance(item, Disconnect) for item in reply.items):
            return [*steps, body[: len(body) // 2], Disconnect()]
        return [*steps, body]

    def _frames(
        self, items: Iterable[Item], finish: FinishReason | None, usage: Usage | None, *, stream: bool = True
    ) -> list[bytes]:
        return list(
            self.provider.emit(
                self.content(items),
                response_id=self.response_id,
                model=self.model,
                finish=finish,
                usage=usage,
                delta_size=self.delta_size,
                stream=stream,
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
