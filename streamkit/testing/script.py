"""What a model says in a test: replies, calls, refused requests, and where the connection stalls or breaks.

A script is written once, without a provider: these are its words, and this file knows nothing of how they are sent.
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
    "Item",
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
    """The model calls a tool.

    Attributes:
        name: the tool's name.
        arguments: the object; or text, sent as it stands (``'{"city": "Os'`` is what a cut answer looks like).
        id: the provider's id of the call; by default one of the kind that the provider makes, the same at every run.
        custom: a custom tool; its arguments are free text.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None
    custom: bool = False


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The model thinks. ``signature`` is what the provider wants back with the thought, where its wire has one."""

    text: str
    signature: str | None = None
    kind: ReasoningKind = "text"


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The connection is cut here, in the middle of a frame."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Nothing comes for this many seconds, then the reply goes on."""

    seconds: float


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
#: What a reply is made of.
Item: TypeAlias = "str | Call | Reasoning | Disconnect | Stall | Block"


@dataclass(frozen=True, slots=True, init=False)
class Reply:
    """One answer of the model: ``Reply("Let me look.", Call("get_weather", {"city": "Oslo"}))``.

    Args:
        items: in the order in which the model says them: text, ``Call``, ``Reasoning``, any block of
            ``streamkit.history``; between them ``Stall`` and ``Disconnect``.
        finish: why it stops; by default ``tool_calls`` where there are calls, else ``stop``.
        usage: the tokens it reports; by default about one for four characters.
    """

    items: tuple[Item, ...]
    finish: FinishReason | None
    usage: Usage | None

    def __init__(self, *items: Item, finish: FinishReason | None = None, usage: Usage | None = None) -> None:
        for item in items:
            if not isinstance(item, (str, Call, Reasoning, Disconnect, Stall, *_BLOCKS)):
                raise UsageError(
                    f"a Reply holds text, Call, Reasoning, Stall, Disconnect or a block of streamkit.history, "
                    f"not {type(item).__name__}: {item!r}"
                )
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "finish", finish)
        object.__setattr__(self, "usage", usage)


@dataclass(frozen=True, slots=True)
class Status:
    """The request is refused: this HTTP status, with the provider's own kind of error body.

    ``retry_after`` is in seconds and goes into the header of that name. The official SDKs try again by themselves after
    408, 409, 429 and 5xx, and so come to the next turn; with ``retry`` False the answer asks the OpenAI and Anthropic
    ones not to (their header ``x-should-retry``).
    """

    status: int
    message: str = ""
    retry_after: float | None = None
    retry: bool = True

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise UsageError(f"a request is refused with a status from 400 to 599, not {self.status!r}")


@dataclass(slots=True, eq=False)
class Request:
    """A request that the server got.

    Attributes:
        provider: the provider whose base URL was used; None where the path is nobody's.
        conversation: the name given to ``base_url``, or ``""``.
        number: place among the requests of this conversation that took a turn of the script, from 0; -1 for others.
        method, path, query, headers: as they came; names of headers in lower case.
        json: the body; None where it is no JSON.
        status: what was answered; 0 before that.
        disconnected: the client closed the connection before the whole answer was sent.
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


#: What answers one request; text alone is a reply that says it.
ReplyLike: TypeAlias = Reply | Status | str
#: An answer that depends on what is asked.
ReplyFactory: TypeAlias = Callable[[Request], ReplyLike | Awaitable[ReplyLike]]
#: One answer for each request in turn; or a function that answers them all.
Script: TypeAlias = Sequence[ReplyLike | ReplyFactory] | ReplyLike | ReplyFactory


class ScriptPlayer:
    """Which turn of a script comes next, for each conversation.

    Raises:
        UsageError: something in the script is no turn.
    """

    def __init__(self, script: Script) -> None:
        self._endless = script if callable(script) else None
        if isinstance(script, (str, Reply, Status)):
            script = [script]
        self._turns = () if callable(script) else tuple(script)
        for turn in self._turns:
            if not callable(turn):
                _checked(turn)
        self._taken: Counter[tuple[str | None, str]] = Counter()

    async def answer(self, request: Request) -> Reply | Status:
        """The answer to this request, which gets its ``number`` here."""
        walk = request.provider, request.conversation
        request.number = self._taken[walk]
        self._taken[walk] += 1
        if self._endless is None and request.number >= len(self._turns):
            turns = f"{len(self._turns)} turn" + ("" if len(self._turns) == 1 else "s")
            return Status(
                500,
                f"the script ends after {turns} and this is request {request.number + 1}; a conversation that begins "
                f"anew has its own base_url({request.provider!r}, 'another')",
                retry=False,
            )
        turn = self._endless or self._turns[request.number]
        try:
            answer: object = turn(request) if callable(turn) else turn
            return _checked(await answer if isawaitable(answer) else answer)
        except Exception as error:
            # The script's own fault: the client is told, and the server goes on.
            what = f"{type(error).__name__}: {error}"
            return Status(500, f"the script's function for request {request.number + 1} raised {what}", retry=False)


def _checked(turn: object) -> Reply | Status:
    if isinstance(turn, str):
        return Reply(turn)
    if not isinstance(turn, (Reply, Status)):
        hint = "; put it into a Reply" if isinstance(turn, (Call, Reasoning, Stall, Disconnect)) else ""
        raise UsageError(f"a turn is a Reply, a Status, text, or a function of the request, not {turn!r}{hint}")
    return turn
