"""What a request is made from, and how one round's context follows from the last. Pure.

This module must not depend on how a stream is opened or read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, TypeVar, overload

import msgspec
from msgspec import Struct

from streamkit import providers
from streamkit.calls import StreamError
from streamkit.errors import UsageError
from streamkit.execution.round.thread_update import ThreadUpdate
from streamkit.history import CacheMark, Content, ToolCallBlock
from streamkit.providers.contract.rendered import IdPolicy, RenderOptions
from streamkit.providers.provider import Provider, RenderedMessages, ToolChoice
from streamkit.providers.registry import ProviderName
from streamkit.providers.rendering.kept import Renderings, render_longer
from streamkit.providers.requests.request import CachePolicy, auto_mark, mark_tools
from streamkit.tools import OfferedTool, Tool, to_definitions

if TYPE_CHECKING:
    from streamkit.output import OutputType

__all__ = [
    "BeforeEveryRequest",
    "BeforeFollowUp",
    "Connection",
    "CreateStream",
    "OnOverflow",
    "RoundContext",
    "Target",
    "check_hook",
    "finalize_tool_execution",
]


class Target(Struct, frozen=True):
    """A provider, and the model and endpoint that are requested of it: one of the ``fallbacks`` of ``run_loop``.

    Attributes:
        provider: the provider's name, or a provider object.
        model: the model; None if it is not to be compared with the model that made the history.
        endpoint: the address of the server; None if it is not to be compared.
    """

    provider: ProviderName | str | Provider
    model: str | None = None
    endpoint: str | None = None


class _ProviderField:
    """A field of a dataclass that is set by a provider's name or object, and read as the object."""

    @overload
    def __get__(self, instance: None, owner: type) -> NoReturn: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Provider: ...
    def __get__(self, instance: object | None, owner: type) -> Provider:
        if instance is None:
            raise AttributeError  # so that the dataclass has no default for the field
        provider: Provider = instance.__dict__["provider"]
        return provider

    def __set__(self, instance: object, value: ProviderName | str | Provider) -> None:
        instance.__dict__["provider"] = providers.get(value)


@dataclass(frozen=True, repr=False)
class RoundContext:
    """What the next stream is made from.

    Attributes:
        contents: the conversation so far, neutral (of a run with a ``thread``: what the run added).
        tools: those that the model may call.
        tool_choice: ``auto``, ``none``, ``required``, a tool's name, or None for the provider's default.
        provider: the provider of the stream; a name is accepted, too.
        round: the number of the round, from 0.
        deps: the ``deps`` of ``run_loop``.
        messages: the ``thread`` of ``run_loop`` and what was added to it; None for a run with a history.
        model: the model to request, if ``run_loop`` or the fallback names one. Opaque state of another one is left out.
        endpoint: the server to request, if ``run_loop`` or the fallback names one. The same applies.
        ids: the id policy of rendering.
        output: the type of the run's structured output; None if it has none.
        cache: the marks that the request gets for the provider's cache, as for ``render_request``. They are in the
            request alone: ``thread`` has those of blocks. Messages that were given get none, only the tools.
        renderings: what earlier rounds have rendered of the conversation, which the rendering of this one continues.
    """

    contents: list[Content]
    tools: list[Tool]
    tool_choice: ToolChoice | None
    provider: _ProviderField = _ProviderField()
    round: int = 0
    deps: Any = None
    messages: list[dict[str, Any]] | None = None
    model: str | None = None
    endpoint: str | None = None
    ids: IdPolicy = "origin"
    output: OutputType[Any] | None = None
    cache: CachePolicy = None
    renderings: Renderings = field(default_factory=dict, repr=False, compare=False)

    def __repr__(self) -> str:
        # A log must not contain ``deps`` (keys, connections) or the conversation.
        tools = [tool.name for tool in self.tools]
        count = len(self.contents)
        return f"<RoundContext round={self.round} provider={self.provider.name!r} contents={count} tools={tools}>"

    @cached_property
    def rendered(self) -> RenderedMessages:
        """The conversation in the provider's form. With a given thread, its own messages are the thread's."""
        rendered = self._render(None)
        if self.messages is None:
            return rendered
        return msgspec.structs.replace(rendered, messages=self.messages, system=None)

    def _render(self, mark: CacheMark | None) -> RenderedMessages:
        options = RenderOptions(self.ids, self.model, self.endpoint)
        return render_longer(self.renderings, self.contents, self.provider, options, mark)

    @cached_property
    def _rendered_for_request(self) -> RenderedMessages:
        """The conversation with the marks of ``cache``."""
        mark = auto_mark(self.cache)
        if mark is None or self.messages is not None:
            return self.rendered
        return self._render(mark)

    @property
    def thread(self) -> list[dict[str, Any]]:
        """The conversation in the provider's own messages."""
        return self.rendered.messages if self.messages is None else self.messages

    @cached_property
    def request(self) -> dict[str, Any]:
        """Every field of the request's body that the conversation decides; the caller adds the model and settings."""
        tool_choice = self.tool_choice if self.tools else None
        tools: Sequence[Tool | OfferedTool] = self.tools
        if (mark := auto_mark(self.cache)) is not None:
            tools = mark_tools(to_definitions(self.tools, self.provider.name), mark)
        output: dict[str, Any] = {} if self.output is None else {"output": self.output}
        return self.provider.build_request(
            self._rendered_for_request, tools=tools, tool_choice=tool_choice, stream=True, **output
        )

    @property
    def changes(self) -> list[str]:
        """A sentence for each thing that rendering changed or left out; empty if nothing was rendered yet."""
        rendered: RenderedMessages | None = self.__dict__.get("_rendered_for_request", self.__dict__.get("rendered"))
        return [*map(str, rendered.changes)] if rendered is not None and self.messages is None else []

    @property
    def render_options(self) -> RenderOptions:
        """How the messages of an update are rendered, which follow those of a ``thread``."""
        return RenderOptions(self.ids, self.model, self.endpoint, self._message_ids)

    @cached_property
    def _message_ids(self) -> frozenset[str]:
        return frozenset(self.provider.call_ids(self.messages or ()))

    @cached_property
    def call_ids(self) -> frozenset[str]:
        """The ids of all calls of the conversation; a new call must not get a canonical id among them."""
        return self._message_ids | _call_ids(self.contents)

    def with_target(self, target: Target) -> RoundContext:
        """Return the same context for another provider, model and endpoint."""
        return replace(self, provider=target.provider, model=target.model, endpoint=target.endpoint)

    def message_update(self, message: Content) -> ThreadUpdate:
        """Return what a message of the application, such as a correction, adds to the conversation."""
        rendered = self.provider.render([message], model=self.model, endpoint=self.endpoint)
        return ThreadUpdate(rendered.messages, [message], [], [])

    def with_update(self, update: ThreadUpdate, *, is_round_over: bool = False) -> RoundContext:
        """Return the context with an update in the conversation: of the same round, or of the next one.

        In the next round a choice that forced a tool is cleared. Kept, it would force a call in every round
        (openai/openai-agents-python#263, vercel/ai#3944).
        """
        fields = {name: self.__dict__[name] for name in self.__dataclass_fields__}  # without what was rendered
        fields["contents"] = self.contents + update.contents
        if self.messages is not None:
            fields["messages"] = self.messages + update.messages
        if is_round_over:
            fields["round"] = self.round + 1
            if self.tool_choice not in ("auto", "none"):
                fields["tool_choice"] = None
        new_ids = self.provider.call_ids(update.messages) if self.messages is not None else set()
        fields["_message_ids"] = self._message_ids | new_ids  # found in what is new alone
        fields["call_ids"] = self.call_ids | new_ids | _call_ids(update.contents)
        context = object.__new__(type(self))  # dataclasses.replace() takes ten times as long
        context.__dict__.update(fields)
        return context


def _call_ids(contents: Sequence[Content]) -> set[str]:
    return {block.id for content in contents for block in content.blocks if isinstance(block, ToolCallBlock)}


Stream = TypeVar("Stream")

#: ``create_new_stream(context)``: returns the chunks of a stream (an iterable, sync or async), a response, or an
#: awaitable or context manager of one.
CreateStream: TypeAlias = Callable[[RoundContext], Any]


class Connection(ABC):
    """A ``create_new_stream`` that names its provider and model, and is opened and closed with the runs that have it.

    Attributes:
        provider: the default of ``run_loop(provider=...)``, as the next two are.
        model: the model that is requested.
        endpoint: the address of the server.
    """

    provider: str
    model: str
    endpoint: str

    @abstractmethod
    def __call__(self, context: RoundContext) -> Any:
        """Return the stream of a request, as every ``create_new_stream`` does."""

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Open it for one more run."""

    @abstractmethod
    async def __aexit__(self, *_: object) -> None:
        """Leave it at the end of a run; it closes with the last one."""


#: ``before_follow_up(context)``: called before each request but the first; what it returns replaces the context.
BeforeFollowUp: TypeAlias = Callable[[RoundContext], Awaitable[RoundContext | None] | RoundContext | None]


class BeforeEveryRequest(Struct, frozen=True):
    """A hook of ``before_follow_up`` that is called before the first request as well.

    Attributes:
        hook: ``async (context) -> RoundContext | None``.
    """

    hook: BeforeFollowUp

    def __call__(self, context: RoundContext) -> Awaitable[RoundContext | None] | RoundContext | None:
        """Call the hook."""
        return self.hook(context)


#: ``on_overflow(error, context)``: called when a request exceeds the model's context; what it returns replaces the
#: context, and the request is made again.
OnOverflow: TypeAlias = Callable[[StreamError, RoundContext], Awaitable[RoundContext | None] | RoundContext | None]


async def check_hook(name: str, value: Any, context: RoundContext) -> RoundContext | None:
    """Return the value of a hook, which may be an awaitable, checked; the hook was called with the context.

    Raises:
        UsageError: the value is no context, or one that cannot be requested.
    """
    if isawaitable(value):
        value = await value
    if value is None:
        return None
    if not isinstance(value, RoundContext):
        raise UsageError(f"{name} must return a RoundContext or None, not {type(value).__name__}")
    if value.messages is not None and value.provider is not context.provider:
        raise UsageError("the messages of thread= cannot be sent to another provider: pass history= instead")
    return value


@overload
async def finalize_tool_execution(
    context: RoundContext, update: ThreadUpdate, create_new_stream: Callable[[RoundContext], Awaitable[Stream]]
) -> tuple[RoundContext, Stream]: ...
@overload
async def finalize_tool_execution(
    context: RoundContext, update: ThreadUpdate, create_new_stream: Callable[[RoundContext], Stream]
) -> tuple[RoundContext, Stream]: ...
async def finalize_tool_execution(
    context: RoundContext, update: ThreadUpdate, create_new_stream: Callable[[RoundContext], Any]
) -> tuple[RoundContext, Any]:
    """End a round's tool execution, in a loop of your own: make the next request.

    Args:
        context: that of the round.
        update: what the round adds to the conversation.
        create_new_stream: called with the next context; an awaitable that it returns is awaited.

    Returns:
        The next round's context, with the update in the conversation, the round counted and a forced tool choice
        cleared; and the stream that ``create_new_stream`` made for it.

    Raises:
        Exception: what ``create_new_stream`` raised.
    """
    next_context = context.with_update(update, is_round_over=True)
    stream = create_new_stream(next_context)
    return next_context, await stream if isawaitable(stream) else stream
