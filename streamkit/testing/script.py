"""The script of a test's model: replies, calls, rejected requests, stalls and broken connections.

A script is written once, for all providers. This module must not depend on a provider or on HTTP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, TypeAlias

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
    follows. As a turn of the script they are the body of the response.

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
