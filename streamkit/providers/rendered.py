"""What a render gives: the thread in the provider's form, and what was changed to fit it. It knows no vendor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["RenderedMessages"]


@dataclass(slots=True)
class RenderedMessages:
    """A rendered thread.

    Attributes:
        messages: the provider's own messages, in order.
        system: system text, where the wire wants it outside of the messages; else None.
        changes: a sentence for each thing that was changed or left out because the target cannot carry it.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    system: str | None = None
    changes: list[str] = field(default_factory=list)
