"""The upper bounds of a turn."""

from __future__ import annotations

from msgspec import Struct

from streamkit.errors import UsageError

__all__ = ["DEFAULT_LIMITS", "Limits"]


class Limits(Struct, frozen=True, kw_only=True):
    """Upper bounds of a turn. Exceeding one ends the turn with ``limit_exceeded`` before memory grows."""

    arguments: int = 8 * 1024 * 1024  #: characters of one call's arguments
    text: int = 64 * 1024 * 1024  #: characters of all that is kept of the turn (docs/rules.md, "Limits")
    calls: int = 1024  #: calls of a turn
    name: int = 1024  #: characters of a tool's name
    frame: int = 16 * 1024 * 1024  #: bytes of one frame
    nesting: int = 256  #: nested brackets in a call's arguments (in a block of the provider's own at most 190)

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise UsageError(f"Limits.{name} is an integer of at least 0, not {value!r}")


DEFAULT_LIMITS = Limits()
