"""What a request is made from, and how one round's context follows from the last. Pure.

This module must not depend on how a stream is opened or read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from streamkit import providers
from streamkit.execution.thread_update import ThreadUpdate
from streamkit.history import Content
from streamkit.providers.provider import Provider, ToolChoice
from streamkit.tools import Tool

__all__ = ["BeforeFollowUp", "CreateStream", "RoundContext", "finalize_tool_execution"]


@dataclass(frozen=True)
class RoundContext:
    """What the next stream is made from.

    Attributes:
        contents: the conversation so far, neutral (of a run with a ``thread``: what the run added).
        tools: those that the model may call.
        tool_choice: ``auto``, ``none``, ``required``, a tool's name, or None for the provider's default.
        provider: the provider of the stream.
        round: the number of the round, from 0.
        deps: the ``deps`` of ``run_loop``.
        messages: the ``thread`` of ``run_loop`` and what was added to it; None for a run with a history.
    """

    contents: list[Content]
    tools: list[Tool]
    tool_choice: ToolChoice | None
    provider: Provider
    round: int = 0
    deps: Any = None
    messages: list[dict[str, Any]] | None = None

    @cached_property
    def thread(self) -> list[dict[str, Any]]:
        """The conversation in the provider's own messages."""
        return self.messages if self.messages is not None else providers.render(self.contents, self.provider)

    @cached_property
    def request(self) -> dict[str, Any]:
        """Every field of the request's body that the conversation decides; model and settings are the caller's."""
        contents = self.contents if self.messages is None else [Content.human("...")]
        request = providers.render_request(
            contents,
            self.provider,
            tools=self.tools,
            tool_choice=self.tool_choice if self.tools else None,
            stream=True,
        )
        if self.messages is not None:
            # The field that the messages stand in has a name of the provider's own; this is how it shows.
            written = providers.render(contents, self.provider)
            request |= {name: self.messages for name, value in request.items() if value == written}
        return request

    def with_update(self, update: ThreadUpdate) -> RoundContext:
        """Return the context of the same round, with an update in the conversation."""
        messages = None if self.messages is None else self.messages + update.messages
        return replace(self, contents=self.contents + update.contents, messages=messages)

    def next_round(self) -> RoundContext:
        """Return the context of the next round. A choice that forced a tool is cleared.

        Kept, it would force a call in every round (openai/openai-agents-python#263, vercel/ai#3944).
        """
        choice = self.tool_choice if self.tool_choice in ("auto", "none") else None
        return replace(self, tool_choice=choice, round=self.round + 1)


#: ``create_new_stream(context)``: returns the chunks of a stream (an iterable, sync or async), a response, or an
#: awaitable or context manager of one.
CreateStream: TypeAlias = Callable[[RoundContext], Any]

#: ``before_follow_up(context)``: called before each request but the first; what it returns replaces the context.
BeforeFollowUp: TypeAlias = Callable[[RoundContext], Awaitable[RoundContext | None] | RoundContext | None]


def finalize_tool_execution(
    context: RoundContext, update: ThreadUpdate, create_new_stream: CreateStream
) -> tuple[RoundContext, Any]:
    """End a round's tool execution, in a loop of your own.

    Returns:
        The next round's context, with the update in the conversation, the round counted and a forced tool choice
        cleared; and what ``create_new_stream`` returned for it.
    """
    next_context = context.with_update(update).next_round()
    return next_context, create_new_stream(next_context)
