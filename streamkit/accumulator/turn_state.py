"""The state that all choices of a turn share: identity, limits, events, warnings and the first error.

A ``TurnState`` is what the inner objects of the accumulator (choices, trackers) get instead of the accumulator itself.
It must not depend on choices or calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from streamkit.accumulator.limits import NO_STATUS, HttpStatus, Limits, WireTraits
from streamkit.calls import StreamError, StreamWarning, TurnWarningCode
from streamkit.events import Failed, ResponseStarted, TurnEvent, Warned
from streamkit.json_text import join_surrogates, json_size, measure_json, nests_deeper

__all__ = ["OBJECT_SIZE", "STORED_NESTING", "TurnState"]

MAX_WARNINGS = 256  # a stream that is irregular in every chunk must not grow memory; people read the first few
MAX_MESSAGE = 2000  # characters of a warning's message, which may contain what a server sent
OBJECT_SIZE = 512  # what a block, a call or a choice counts against Limits.text beside its content
WARNING_SIZE = 64  # what a warning counts beside its message
UNJOINED = 1024  # characters of all texts together, after which their short parts are joined
STORED_NESTING = 190  # pydantic reads JSON of at most 200 levels, of which a Content takes a few


class Arguments(Protocol):
    """A call, as far as its size matters."""

    name: str

    @property
    def size(self) -> int:
        """The characters of its arguments."""


class GrowingTexts(Protocol):
    """Texts that still grow."""

    def join_parts(self) -> int:
        """Join their short parts; return the number of these."""


class TurnState:
    """The values that the accumulator, its choices and their trackers read and change together.

    Args:
        provider_name: the provider's registered name, a part of every canonical id.
        traits: the facts about the wire.
        turn_key: the stable name of the turn; None until ``resolve_turn_key`` decides.
        limits: upper bounds of the turn.
        recover_trailing_junk: whether a call whose complete arguments are followed by other text counts as complete.
        repair_arguments: whether raw control characters, invalid escapes and trailing commas in arguments are repaired.
    """

    __slots__ = (
        "_call_count",
        "_has_content",
        "_limit_reported",
        "_reserved_ids",
        "_unknown_fields",
        "check_at",
        "done",
        "endpoint",
        "error",
        "events",
        "first_texts",
        "has_started",
        "http_status",
        "input_ended",
        "limits",
        "longest_arguments",
        "metadata",
        "model",
        "other_texts",
        "provider_name",
        "recover_trailing_junk",
        "repair_arguments",
        "requested_model",
        "response_id",
        "size",
        "traits",
        "turn_choice",
        "turn_key",
        "warnings",
    )

    def __init__(
        self,
        provider_name: str,
        traits: WireTraits,
        turn_key: str | None,
        limits: Limits,
        *,
        recover_trailing_junk: bool,
        repair_arguments: bool,
    ) -> None:
        self.provider_name: str = provider_name
        self.traits: WireTraits = traits
        self.turn_key = turn_key
        self.limits: Limits = limits
        self.recover_trailing_junk: bool = recover_trailing_junk
        self.repair_arguments: bool = repair_arguments
        self.events: list[TurnEvent] = []  # taken or emptied by the caller of the accumulator
        self.warnings: list[StreamWarning] = []
        self.error: StreamError | None = None
        self.has_started: bool = False  # the event of the response's start was emitted
        self.response_id: str | None = None
        self.model: str | None = None
        self.requested_model: str | None = None
        self.endpoint: str | None = None  # the server, without anything that may be secret
        self.metadata: dict[str, Any] = {}  # facts about the response, by the provider's names
        self.done: bool = False  # after the terminator, or an error other than the provider's own: nothing more is read
        self.input_ended: bool = False  # no bytes follow: a frame that is not JSON was truncated
        self.http_status: HttpStatus = NO_STATUS
        self.turn_choice: int = 0  # the number of the choice that is the turn's
        self._has_content = False  # a choice sent something
        self._call_count = 0
        self._limit_reported = False
        self.size: int = 0  # what counts against Limits.text
        # Beyond this size the limit is checked and texts are joined. A call of ``min`` takes 4% of ``Turn()``.
        self.check_at: int = UNJOINED if limits.text > UNJOINED else limits.text
        self.first_texts: GrowingTexts | None = None  # those of choice 0
        self.other_texts: tuple[Callable[[], int], ...] = ()  # functions that join their short parts
        self.longest_arguments: int = 0  # the characters of the longest arguments that still grow
        self._reserved_ids: dict[str, None] | None = None  # no set, which the garbage collector would look at
        self._unknown_fields: set[str] | None = None  # bounded by MAX_WARNINGS

    def begin_choice(self, index: int) -> None:
        """Record that a choice sent its first block or finish (docs/rules.md, "The turn's choice")."""
        if index == 0 or not self._has_content:
            self.turn_choice = index
        self._has_content = True

    def start_response(self, facts: Mapping[str, Any] | None = None) -> None:
        """Emit the start of the response, once: as soon as the wire identifies it, at the latest before its content.

        Args:
            facts: what the event has beside the metadata so far.
        """
        if not self.has_started:
            self.has_started = True
            metadata = {**(facts or {}), **self.metadata}
            self.events.append(
                ResponseStarted(self.response_id, self.model, 0, self.provider_name, metadata, self.requested_model)
            )

    def fail(self, error: StreamError) -> None:
        """Record an error. The first one is the turn's; a later one becomes a warning."""
        status = self.http_status
        if error.kind == "provider_error" and status.code >= 400 and error.status is None:
            error = msgspec.structs.replace(error, status=status.code, retry_after=status.retry_after)
        error = self.traits.classify_error(error)
        if self.input_ended and error.kind == "protocol_error":
            error = StreamError("stream_truncated", "the stream ended inside a frame", raw=error.raw)
        # No more of it is kept than the limit still allows, but always the beginning.
        left = max(self.limits.text - self.size, MAX_MESSAGE)
        message, raw, size = join_surrogates(error.message[:left]), error.raw, json_size(error.raw)
        if size > left and not (isinstance(raw, str) and len(raw) <= left):
            raw = (raw if isinstance(raw, str) else _repr(raw))[:MAX_MESSAGE]
        self.size += len(message) + min(size, left)
        if message is not error.message or raw is not error.raw:
            error = msgspec.structs.replace(error, message=message, raw=raw)
        self.done = self.done or error.kind != "provider_error"
        if self.error is not None:
            self.warn("another_error", f"{error.kind}: {error.message}")
            return
        self.error = error
        self.events.append(Failed(error))

    def fail_value(self, error: ValueError | RecursionError) -> None:
        """Record the error of a chunk that Python cannot convert: nested too deeply, or an integer of too many digits.

        A chunk that was decoded may still be too deep to be compared or encoded deeper in the stack.

        Raises:
            ValueError: the error has another reason.
        """
        if isinstance(error, RecursionError):
            self.fail(StreamError("limit_exceeded", "a chunk's JSON is nested too deeply"))
        elif "integer string conversion" in str(error):
            self.fail(StreamError("protocol_error", f"a chunk has a number that is too long ({error})"))
        else:
            raise error

    def warn(self, code: TurnWarningCode, message: str) -> None:
        """Record a warning that concerns no particular call."""
        self.record_warning(StreamWarning(code, message))

    def report_unknown_field(self, name: str, value: object) -> None:
        """Warn of a field that no event describes, once for each name."""
        name, known = name[:80], self._unknown_fields
        if known is None:
            known = self._unknown_fields = set()
        if name not in known and len(known) <= MAX_WARNINGS:
            known.add(name)
            self.warn("unknown_field", f"the field {name!r} has no event: {_repr(value)[:200]}")

    def record_warning(self, warning: StreamWarning, choice: int = 0) -> StreamWarning:
        """Keep a warning and emit its event; beyond ``MAX_WARNINGS``, record once that there are more.

        Returns:
            The warning with its message in valid characters, and not too long.
        """
        message = join_surrogates(warning.message)
        if len(message) > MAX_MESSAGE:
            message = f"{message[:MAX_MESSAGE]} ..."
        kept = warning = msgspec.structs.replace(warning, message=message)
        if len(self.warnings) <= MAX_WARNINGS:
            if len(self.warnings) == MAX_WARNINGS:
                more: TurnWarningCode = "more_warnings"
                kept = StreamWarning(more, f"more than {MAX_WARNINGS} warnings; the rest is not kept")
            self.warnings.append(kept)
            self.events.append(Warned(kept.code, kept.message, choice))
            self.keep(WARNING_SIZE + len(kept.message))
        return warning

    def report_limit(self, message: str) -> None:
        """End the turn with ``limit_exceeded``, once."""
        if not self._limit_reported:
            self._limit_reported = True
            self.fail(StreamError("limit_exceeded", message))

    def refuses(self, value: object) -> bool:
        """Return True, and end the turn, if a value must not be kept; else count it against ``Limits.text``.

        The reason is its size, or that it is nested more deeply than history can be stored.
        """
        size, brackets = measure_json(value)
        if brackets > self.limits.nesting or brackets > STORED_NESTING:
            limit = min(self.limits.nesting, STORED_NESTING)
            if nests_deeper(value, limit):
                self.report_limit(f"a block of the provider's own is nested more than {limit} levels deep")
                return True
        return not self.keep(size)

    def refuses_name(self, name: str) -> bool:
        """Return True, and end the turn, if the name of a tool is too long."""
        limit = self.limits.name
        if len(name) <= limit:
            return False
        self.report_limit(f"the name of a tool exceeds {limit} characters")
        return True

    def keep(self, size: int) -> bool:
        """Count characters that are kept, against ``Limits.text``; return False if they are too many.

        The fast paths of text and arguments do the same without this call.
        """
        self.size = size = self.size + size
        if size > self.check_at:
            self.check_size()
            return self.size <= self.limits.text
        return True

    def drop(self, size: int) -> None:
        """Count characters that were kept and are dropped."""
        self.size -= size
        self.check_at -= size

    def check_size(self) -> None:
        """Check the size of all that is kept, and join the short parts of the texts that still grow."""
        limits = self.limits
        if self.size > limits.text:
            self.report_limit(f"what is kept of the response exceeds {limits.text} characters")
        self.longest_arguments = 0
        parts = 0 if self.first_texts is None else self.first_texts.join_parts()
        for join in self.other_texts:
            parts += join()
        # Longer parts may wait longer. Each call is looked at, so the next check is further away for many.
        more = (UNJOINED if parts * 8 > UNJOINED else 4 * UNJOINED) + OBJECT_SIZE * self._call_count
        self.check_at = min(limits.text, self.size + min(more, limits.arguments - self.longest_arguments))

    def check_arguments(self, call: Arguments) -> None:
        """Check the size of a call's arguments, which were counted; the next check comes before they are too long."""
        if self.size > self.check_at:
            self.check_size()
        limit = self.limits.arguments
        left = limit - call.size
        if left < 0:
            self.report_limit(f"the arguments of {call.name!r} exceed {limit} characters")
        elif self.check_at - self.size > left:
            self.check_at = self.size + left

    def add_call(self) -> bool:
        """Count a call, against ``Limits.calls`` and ``Limits.text``; return False if it is one too many."""
        self._call_count += 1
        if self._call_count > self.limits.calls:
            self.report_limit(f"more than {self.limits.calls} calls")
            return False
        return self.keep(OBJECT_SIZE)

    def resolve_turn_key(self) -> str:
        """Return the stable name of the turn: the caller's, else the response id, else ``turn`` with a warning.

        From the first use on it does not change, because the ids of calls contain it.
        """
        if self.turn_key is None:
            self.turn_key = self.response_id
            if self.turn_key is None:
                self.turn_key = "turn"
                self.warn(
                    "no_turn_key",
                    "no turn_key was passed and the wire sent no response id: the ids of calls repeat in the next turn",
                )
        return self.turn_key

    @property
    def origin(self) -> dict[str, str]:
        """What made the response, as far as it is known: the provider, the endpoint, the reported and requested model.

        The names are those of a block's metadata, from which a renderer decides where opaque state may go.
        """
        origin = {"provider": self.provider_name}
        if self.endpoint is not None:
            origin["endpoint"] = self.endpoint
        if self.model is not None:
            origin["model"] = self.model
        if self.requested_model is not None:
            origin["requested_model"] = self.requested_model
        return origin

    def reserve_ids(self, canonical_ids: Iterable[str]) -> None:
        """Reserve the canonical ids of earlier turns, which no ``hist_tool_`` id of the wire may repeat."""
        self._reserved_ids = {**(self._reserved_ids or {}), **dict.fromkeys(canonical_ids)}

    def reserve_id(self, canonical_id: str) -> bool:
        """Reserve a canonical id in this turn; return False if a call already has it."""
        reserved = self._reserved_ids
        if reserved is None:
            reserved = self._reserved_ids = {}
        if canonical_id in reserved:
            return False
        reserved[canonical_id] = None
        return True


def _repr(value: object) -> str:
    """Return the beginning of the ``repr`` of a value."""
    try:
        return repr(value)[:MAX_MESSAGE]
    except (RecursionError, ValueError):  # nested too deeply, or an integer of thousands of digits
        return f"a value of type {type(value).__name__}"
