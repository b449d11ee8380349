"""The script of a test's model: replies, calls, rejected requests, stalls and broken connections.

A script is written once, for all providers; ``rendering`` makes the frames of a reply. This module must not depend on a
particular provider or on HTTP.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from typing import Any, TypeAlias

from streamkit import providers
from streamkit.calls import FinishReason, Usage
from streamkit.errors import UsageError
from streamkit.events import ReasoningKind
from streamkit.history import (
    Block,
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
from streamkit.providers.contract.traits import Framing
from streamkit.providers.provider import Provider
from streamkit.providers.writing.encoding import text_or_json
from streamkit.reading.turn import Turn

__all__ = [
    "Call",
    "Disconnect",
    "ErrorEvent",
    "Expect",
    "Item",
    "RawBytes",
    "Reasoning",
    "Recorded",
    "Reply",
    "ReplyFactory",
    "ReplyLike",
    "Request",
    "Script",
    "ScriptPlayer",
    "Stall",
    "Status",
    "check_speed",
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


def check_speed(delta_size: int | None, delay: float | None) -> None:
    """Check the characters of a delta and the seconds between two chunks, if they are set.

    Raises:
        UsageError: one of them is out of range.
    """
    if delta_size is not None and delta_size < 1:
        raise UsageError(f"delta_size must be a number of characters, at least 1, not {delta_size}")
    if delay is not None and not 0 <= delay < math.inf:
        raise UsageError(f"delay must be the seconds between two chunks, not {delay}")


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
        delay: seconds between two chunks of this reply; None for that of the server.
        delta_size: characters in one delta of this reply; None for that of the server.

    Raises:
        UsageError: an item has another type, or a number is out of range.
    """

    items: tuple[Item, ...]
    finish: FinishReason | None
    usage: Usage | None
    delay: float | None
    delta_size: int | None

    def __init__(
        self,
        *items: Item,
        finish: FinishReason | None = None,
        usage: Usage | None = None,
        delay: float | None = None,
        delta_size: int | None = None,
    ) -> None:
        check_speed(delta_size, delay)
        for item in items:
            if not isinstance(item, (str, Call, Reasoning, RawBytes, Stall, Disconnect, ErrorEvent, *_BLOCKS)):
                raise UsageError(
                    f"a Reply contains text, Call, Reasoning, RawBytes, Stall, Disconnect, ErrorEvent or a block of "
                    f"streamkit.history, not {type(item).__name__}: {item!r}"
                )
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "finish", finish)
        object.__setattr__(self, "usage", usage)
        object.__setattr__(self, "delay", delay)
        object.__setattr__(self, "delta_size", delta_size)


class Recorded:
    """A recorded response as a turn of the script: a file of ``record``, or a captured body.

    A request of the recording's wire, and of its mode, gets its bytes. Any other one gets the same turn as its own
    stream or body: text, reasoning and calls, the finish and the usage, or the error.

    Args:
        path: the file: server-sent events, NDJSON, Amazon's frames, or one JSON body.
        provider: the provider whose response it is; None to find it by the first bytes.
        delay: seconds between two chunks; None for that of the server.

    Raises:
        UsageError: the provider is not recognized, or the delay is out of range.
        OSError: the file cannot be read.
    """

    def __init__(self, path: str | Path, *, provider: str | None = None, delay: float | None = None) -> None:
        check_speed(None, delay)
        self.path: Path = Path(path)  #: the file
        self.delay: float | None = delay  #: seconds between two chunks; None for that of the server
        self._data = self.path.read_bytes()
        name = provider or providers.detect(self._data)
        if name is None:
            raise UsageError(
                f"{self.path} is no response of a known wire; name its provider: Recorded(path, provider=)"
            )
        self._provider = providers.get(name)

    def __repr__(self) -> str:
        return f"Recorded({str(self.path)!r})"

    def own_steps(self, provider: Provider, framing: Framing | None) -> list[bytes] | None:
        """Return the recorded bytes, frame by frame, if they are what a provider sends; else None.

        Args:
            provider: the provider that is asked.
            framing: of the stream that is asked for; None for a body.
        """
        head = self._data.lstrip()[:1]
        recorded: Framing | None = _FRAMINGS.get(head, "sse")
        if head == b"{" and isinstance(_decode(self._data), dict):
            recorded = None
        if provider.package != self._provider.package or recorded != framing:
            return None
        end = {"sse": rb"(?<=\n\n)|(?<=\r\n\r\n)", "ndjson": rb"(?<=\n)"}.get(recorded or "")
        return [frame for frame in re.split(end, self._data) if frame] if end else [self._data]

    def reply(self) -> Reply:
        """Return the recorded turn as a reply of any provider."""
        turn = Turn(self._provider, turn_key="recorded")
        turn.feed(self._data)
        turn.close()
        items: list[Item] = [] if turn.content is None else [*turn.content.blocks]
        if turn.error is not None:
            items.append(ErrorEvent(Status(turn.error.status or 500, turn.error.message)))
        finish = None if turn.finish is None else turn.finish.reason
        return Reply(*items, finish=finish, usage=turn.usage, delay=self.delay)


_FRAMINGS: dict[bytes, Framing] = {b"\x00": "event_stream", b"[": "json_array", b"{": "ndjson"}


def _decode(data: bytes) -> Any:
    """Return the value of JSON text, None for other bytes."""
    try:
        return json.loads(data)
    except (RecursionError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Expect:
    """What the request of the next turn must have; in the script it stands before that turn.

    A request without it is refused with status 400, takes the turn, and the end of the server's block raises an
    AssertionError, so that a test fails also if the client hides the refusal.

    Attributes:
        tools: the names of the offered tools, in any order; None for any.
        text: a text that occurs in what the request has after the model's last content: a message or a result.
    """

    tools: Collection[str] | None = None
    text: str | None = None

    def find_mismatch(self, body: Any, provider: Provider) -> str | None:
        """Return why a request's body does not have what is expected, None if it has."""
        try:
            request = providers.parse_request(body, provider)
        except UsageError as error:
            return f"the request cannot be read: {error}"
        offered = sorted(tool.name for tool in request.tools if tool.name is not None)
        if self.tools is not None and offered != sorted(self.tools):
            return f"the script expects the tools {sorted(self.tools)}, and the request offers {offered}"
        if self.text is None:
            return None
        new: list[str] = []
        for content in request.contents:
            new = [] if content.speaker == "ai" else [*new, *map(_block_text, content.blocks)]
        if any(self.text in text for text in new):
            return None
        return f"the script expects the text {self.text!r}, and what is new in the request is {new}"


def _block_text(block: Block) -> str:
    """Return the text of a message's block, or of the result of a call."""
    if isinstance(block, ToolResponseBlock):
        return text_or_json(block.result) + (block.error or "")
    return block.text if isinstance(block, TextBlock) else ""


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
ReplyLike: TypeAlias = Reply | Recorded | Status | RawBytes | str

#: A function that makes the response to a request.
ReplyFactory: TypeAlias = Callable[[Request], ReplyLike | Awaitable[ReplyLike]]

#: One response for each request, in order, with what is expected of it before; or a function that makes all of them.
Script: TypeAlias = Sequence[ReplyLike | ReplyFactory | Expect] | ReplyLike | ReplyFactory


class ScriptPlayer:
    """The next turn of a script, for each conversation, whatever the providers of its requests.

    Attributes:
        mismatches: a sentence for each request that had not what the script expects.

    Raises:
        UsageError: an item of the script is not a turn, or the last one expects a request without a turn.
    """

    def __init__(self, script: Script) -> None:
        self._factory = script if callable(script) else None
        if isinstance(script, (str, Reply, Recorded, Status, RawBytes)):
            script = [script]
        self.mismatches: list[str] = []
        self._turns: list[ReplyLike | ReplyFactory] = []
        self._expected: list[list[Expect]] = [[]]  # of each turn
        for item in () if callable(script) else script:
            if isinstance(item, Expect):
                self._expected[-1].append(item)
                continue
            if not callable(item):
                _check_turn(item)
            self._turns.append(item)
            self._expected.append([])
        if self._expected[-1]:
            raise UsageError(f"{self._expected[-1][0]!r} is the end of the script: the turn of that request follows it")
        self._used: Counter[str] = Counter()

    async def next_turn(self, request: Request, provider: Provider) -> Reply | Recorded | Status | RawBytes:
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
        for expected in () if self._factory else self._expected[request.number]:
            if (mismatch := expected.find_mismatch(request.json, provider)) is not None:
                self.mismatches.append(f"request {request.number + 1}: {mismatch}")
                return Status(400, mismatch, retry=False)
        turn = self._factory or self._turns[request.number]
        try:
            response: object = turn(request) if callable(turn) else turn
            return _check_turn(await response if isawaitable(response) else response)
        except Exception as error:
            # An error of the script: the client gets its message, and the server continues.
            message = f"{type(error).__name__}: {error}"
            return Status(500, f"the script's function for request {request.number + 1} raised {message}", retry=False)


def _check_turn(turn: object) -> Reply | Recorded | Status | RawBytes:
    """Return a turn of a script, text as a Reply, or raise UsageError."""
    if isinstance(turn, str):
        return Reply(turn)
    if not isinstance(turn, (Reply, Recorded, Status, RawBytes)):
        hint = "; put it into a Reply" if isinstance(turn, (Call, Reasoning, Stall, Disconnect, ErrorEvent)) else ""
        raise UsageError(
            f"a turn must be a Reply, Recorded, a Status, RawBytes, text, or a function of the request, not "
            f"{turn!r}{hint}"
        )
    return turn
