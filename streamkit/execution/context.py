"""What a request is made from, and how one round's context follows from the last. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from streamkit.execution.thread_update import ThreadUpdate
from streamkit.history import Content
from streamkit.providers import rendering
from streamkit.providers.provider import Provider, RenderedMessages, ToolChoice
from streamkit.tools import Tool

__all__ = ["CreateStream", "RoundContext", "finalize_tool_execution"]

#: Gives the pieces of a stream: an iterable, sync or async, a response, or an awaitable or context manager of one.
CreateStream: TypeAlias = "Callable[[RoundContext], Any]"


@dataclass(frozen=True)
class RoundContext:
    """What the next stream is made from.

    Attributes:
        contents: the conversation so far, neutral (of a run that was given a ``thread``: what it added).
        tools: those that may be called.
        tool_choice: ``auto``, ``none``, ``required``, a tool's name, or None for the provider's own default.
        provider: whose stream is wanted.
        round: the number of the round, from 0.
        deps: what was given to ``run_loop``.
        native: the thread that was given and what was added to it; None where history was given.
    """

    contents: list[Content]
    tools: list[Tool]
    tool_choice: ToolChoice | None
    provider: Provider
    round: int = 0
    deps: Any = None
    messages: list[dict[str, Any]] | None = None

    @cached_property
    def rendered(self) -> RenderedMessages:
        """The conversation in the provider's form. With a given thread, its own messages are the thread's."""
        rendered = rendering.render_messages(self.contents, self.provider)
        return rendered if self.messages is None else replace(rendered, messages=self.messages, system=None)

    @property
    def thread(self) -> list[dict[str, Any]]:
        """The conversation in the provider's own messages."""
        return self.rendered.messages if self.messages is None else self.messages

    @cached_property
    def request(self) -> dict[str, Any]:
        """Every field of the request's body that the conversation decides; model and settings are the caller's."""
        tool_choice = self.tool_choice if self.tools else None
        return self.provider.build_request(self.rendered, tools=self.tools, tool_choice=tool_choice, stream=True)

    def with_update(self, update: ThreadUpdate) -> RoundContext:
        """The same round, with an update in the conversation."""
        messages = None if self.messages is None else self.messages + update.messages
        return replace(self, contents=self.contents + update.contents, messages=messages)

    def next_round(self) -> RoundContext:
        """The next round. A choice that forced a tool is cleared.

        Kept, it would force one in every round, for ever (openai/openai-agents-python#263, vercel/ai#3944).
        """
        choice = self.tool_choice if self.tool_choice in ("auto", "none") else None
        return replace(self, tool_choice=choice, round=self.round + 1)


def finalize_tool_execution(
    context: RoundContext, update: ThreadUpdate, create_new_stream: CreateStream
) -> tuple[RoundContext, Any]:
    """End a round's tool execution, for loops of one's own: the next round's context, and what its stream is made of.

    The update is in the context, the round is counted, a forced choice of tool is cleared. The second value is what
    ``create_new_stream`` gave for it.
    """
    following = context.with_update(update).next_round()
    return following, create_new_stream(following)
