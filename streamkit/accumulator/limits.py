"""What a turn depends on beside its stream: its upper bounds, the status of its response, the facts about its wire."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from streamkit.calls import StreamError
from streamkit.errors import UsageError

__all__ = [
    "DEFAULT_LIMITS",
    "MAX_CHOICES",
    "NO_STATUS",
    "HttpStatus",
    "Limits",
    "WireTraits",
]

MAX_CHOICES = 128  # OpenAI's own bound of n (platform.openai.com/docs/api-reference/chat/create)


class Limits(Struct, frozen=True, kw_only=True):
    """Upper bounds of a turn. Exceeding one ends the turn with ``limit_exceeded`` before memory grows."""

    arguments: int = 8 * 1024 * 1024  #: characters of one call's arguments
    text: int = 64 * 1024 * 1024  #: characters of all that is kept of the turn (docs/rules.md, "Limits")
    calls: int = 1024  #: calls of a turn
    name: int = 1024  #: characters of a tool's name
    frame: int = 16 * 1024 * 1024  #: bytes of one frame
    nesting: int = 180  #: nested brackets in what is kept of the provider, which is as deep as history is stored

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise UsageError(f"Limits.{name} is an integer of at least 0, not {value!r}")


DEFAULT_LIMITS = Limits()


class HttpStatus(Struct, frozen=True):
    """The HTTP status of a response, and what its headers say of an error."""

    code: int = 0  #: 0 if there is no HTTP response
    retry_after: float | None = None  #: seconds
    error_name: str | None = None  #: such as ``ThrottlingException``; only AWS has it in a header
    location: str | None = None  #: where a redirect leads

    @property
    def is_redirect(self) -> bool:
        """Whether the response is at another address, or nowhere: it has no stream."""
        return 300 <= self.code < 400


NO_STATUS = HttpStatus()


def _unclassified(error: StreamError) -> StreamError:
    return error


class WireTraits(Struct, frozen=True, kw_only=True, eq=False, repr_omit_defaults=True):
    """The facts about a wire that decide how the accumulator assigns and ends calls (docs/rules.md, "The stream").

    Attributes:
        reuses_slots: a call's key may come again for another call without an id (Chat Completions).
        whole_names: a call's first delta has its complete name.
        whole_calls: calls arrive complete, so a call without arguments was not truncated.
        calls_end_in_order: a call whose object is closed has ended once another call begins.
        second_key: the key of calls in an older form of the wire, in which a call may be sent a second time.
        content_metadata: metadata of the response that its content keeps, because the next request refers to it.
        classify_error: returns a provider's error with its ``code``, from the error object in ``raw``.
    """

    reuses_slots: bool = False
    whole_names: bool = True
    whole_calls: bool = False
    calls_end_in_order: bool = False
    second_key: str | None = None
    content_metadata: frozenset[str] = frozenset()
    classify_error: Callable[[StreamError], StreamError] = _unclassified
