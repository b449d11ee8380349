"""A conversation in the form of one provider's messages, as its renderer returns it.

This module must not depend on any provider, nor on history.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct, field

__all__ = ["RenderedMessages", "ToolChoice"]

#: ``auto``, ``none``, ``required``, or the name of the one tool that must be called.
ToolChoice: TypeAlias = str


class RenderedMessages(Struct):
    """A conversation in the form of one provider's messages.

    Attributes:
        messages: the provider's own messages, in order.
        system: system text, if the wire has it outside of the messages; else None.
        spans: for each content that was rendered, the range ``(start, stop)`` of ``messages`` that contains it.
            Contents that share a message have overlapping ranges; a content without a message has an empty range.
        request_fields: further fields of a request's body that depend on the conversation.
        changes: a sentence for each thing that was changed or left out because the target cannot carry it.
        model: the model that is requested; None if it is not known.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    system: str | None = None
    spans: list[tuple[int, int]] = field(default_factory=list)
    request_fields: dict[str, Any] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    model: str | None = None

    def report(self, sentence: str) -> None:
        """Record a change, unless it was recorded already."""
        if sentence not in self.changes:
            self.changes.append(sentence)
