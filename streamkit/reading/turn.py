"""One turn of a model: the framer, the parser and the accumulator as one object.

``Turn`` is to streamkit what ``Connection`` is to h11: ``feed`` takes the next input and returns the events that it
caused. It never awaits, and input from a wire never raises, so the result does not depend on how the network split the
bytes. The module must not depend on I/O, an event loop, a clock or any single provider.

Input takes one of two paths. Until the body is recognized as this provider's wire, ``_feed_checked`` decides what it
is. Then bytes take the fast path of ``feed``: frames from the framer straight to the parser, or past both
(``plain_frame``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from streamkit import providers
from streamkit.accumulator import Accumulator, Limits
from streamkit.accumulator.choice import Choice
from streamkit.calls import StreamError, StreamWarning, ToolCall, Usage
from streamkit.errors import StreamInterrupted, UsageError
from streamkit.events import Failed, Reasoning, ServerTool, Text, ToolCallDelta, TurnEvent
from streamkit.framing import Framer, SseFramer
from streamkit.json_text import to_valid_json
from streamkit.providers.contract.rendered import normalize_endpoint
from streamkit.providers.decoding.decoding import excerpt
from streamkit.providers.decoding.detection import HEAD_SIZE, encode_head
from streamkit.providers.provider import Parser, Provider
from streamkit.providers.registry import ProviderName
from streamkit.reading import sdk_objects
from streamkit.reading.choice_view import ChoiceView
from streamkit.reading.plain_frame import PlainFrame
from streamkit.reading.response_body import ResponseBody, error_of_foreign_wire, failed_response, read_status
from streamkit.reading.source_failure import to_turn_error
from streamkit.values.redaction import excerpt_repr

if TYPE_CHECKING:
    from streamkit.reading.leaked_markup import LeakedMarkup, MarkupSink

__all__ = ["Turn"]

_DELTAS: frozenset[type] = frozenset({Text, Reasoning, ToolCallDelta, ServerTool})


class Turn(ChoiceView):
    """One streamed response, fed incrementally; also the view of its choice.

    That is choice 0 if it sent anything, else the first that did (with the warning ``other_choice``); it is fixed when
    the turn is closed. ``choices`` has all of them.

    Args:
        provider: a provider's name, or a provider object.
        turn_key: the stable name of the turn, a part of its calls' ids; by default the wire's response id.
        limits: upper bounds of the turn.
        recover_trailing_junk: whether a call whose complete arguments are followed by other text counts as complete.
        repair_arguments: whether arguments count as complete whose errors have one meaning only: within strings, raw
            control characters and backslashes that begin no escape are escaped, and trailing commas are dropped, with
            the warning ``arguments_repaired``. Missing quotes and brackets are never added.
        leaked_markup: how to treat a model's own tool-call markup that its server leaves in the text (DSML, DeepSeek's
            and Kimi's tokens, Hermes, Qwen). ``keep``: it is text. ``strip``: it is removed. ``recover``: it becomes
            calls, in its position in the content; what does not parse stays text. The last two also clean the names of
            calls, delay text that may be the beginning of markup, and warn of what they changed. The rules are in
            ``streamkit.reading.leaked_markup``.
        tools: the names of the tools that the model was offered. With ``leaked_markup``, markup of a call of any other
            tool stays text. None: the names are not known, and a call of any name is recovered. ``run_loop`` passes
            the names of each round's tools.
        endpoint: the address of the server. Opaque state (signatures, encrypted reasoning, item ids) is valid only for
            the endpoint and model that made it; the metadata of ``turn.content`` names them, and ``render`` compares
            them with the next request's. Pass the same form each time. Credentials, query and fragment are not kept.
        model: the requested model, if the server reports it under another name or not at all.
        used_ids: the canonical ids of the history's calls. A server may send a ``hist_tool_`` id that it got earlier:
            one of these is not taken over, so that two calls never share an idempotency key.

    Raises:
        UnknownProvider: no provider has that name; the message lists the registered ones.
        UsageError: ``leaked_markup`` has another value, or ``tools`` is not a list of names.

    Attributes:
        provider: the provider object.
        closed: whether ``close`` was called.
        input_kind: the kind of input: ``bytes``, ``dict`` or ``object``; None before the first ``feed``.
        withdraw_error_reminder: what takes back a reader's report of an error that nothing reads; None without one.
    """

    __slots__ = (
        "__weakref__",
        "_accumulator",
        "_body",
        "_chunks",
        "_first_chunks",
        "_framer",
        "_has_failed",
        "_markup",
        "_parser",
        "_plain",
        "closed",
        "input_kind",
        "provider",
        "withdraw_error_reminder",
    )

    def __init__(
        self,
        provider: ProviderName | str | Provider,
        turn_key: str | None = None,
        *,
        limits: Limits | None = None,
        recover_trailing_junk: bool = True,
        repair_arguments: bool = False,
        leaked_markup: LeakedMarkup = "keep",
        tools: Collection[str] | None = None,
        endpoint: str | None = None,
        model: str | None = None,
        used_ids: Iterable[str] = (),
    ) -> None:
        self.provider: Provider = providers.get(provider)
        self._accumulator = accumulator = Accumulator(
            self.provider.name,
            self.provider.traits,
            turn_key=turn_key,
            limits=limits,
            recover_trailing_junk=recover_trailing_junk,
            repair_arguments=repair_arguments,
        )
        self._own_choice, self._state = accumulator.first_choice, accumulator.state
        if endpoint:
            self._state.endpoint = normalize_endpoint(endpoint)
        self._state.requested_model = model or None
        if used_ids:
            self._state.reserve_ids(used_ids)
        if tools is not None and (isinstance(tools, str) or not all(isinstance(name, str) for name in tools)):
            text = str(tools)[:100]
            raise UsageError(f"tools must be the names of the offered tools, such as ['get_weather'], not {text!r}")
        self._markup: MarkupSink | None = None
        if leaked_markup != "keep":
            from streamkit.reading.leaked_markup import MarkupSink  # few turns need it

            self._markup = MarkupSink(self._accumulator, leaked_markup, self.provider.traits.markup_families, tools)
        self._parser: Parser = None  # type: ignore[assignment]  # until there is input: it may wait for its response
        self._plain: PlainFrame | None = None  # reads most deltas of some wires, once a frame was recognized
        self._framer: Framer | None = None  # once input is bytes, and some of it was recognized as this wire
        self._body: ResponseBody | None = None  # only if input is bytes
        self._has_failed = False  # the HTTP status reports an error: the body is kept and not parsed
        self._chunks = 0  # dicts and objects fed
        self._first_chunks = b""  # of input that is not recognized as this wire
        self.input_kind: Literal["bytes", "dict", "object"] | None = None
        self.closed: bool = False
        self.withdraw_error_reminder: Callable[[], object] | None = None

    def __repr__(self) -> str:
        state = self._state
        model = "" if state.model is None else f" model={excerpt_repr(state.model)}"
        error = "" if state.error is None else f" error={state.error.kind}: {excerpt_repr(state.error.message)}"
        warnings = f" warnings={len(state.warnings)}" if state.warnings else ""
        is_open = "closed" if self.closed else "open"
        return f"<Turn {self.provider.name} {is_open}{model}{self._describe()}{error}{warnings}>"

    # ---------------------------------------------------------------- input

    def response(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        """Set the HTTP status and headers, before the first input. A status of 300 or more makes the body an error.

        Args:
            status: the HTTP status.
            headers: the response's headers, of which ``retry-after``, ``location`` and the name of an error are read.

        Raises:
            UsageError: input was fed already, the turn is closed, or the status is no integer.
        """
        if self.input_kind is not None or self.closed:
            raise UsageError("Turn.response() must be called before the first feed()")
        if not isinstance(status, int):
            raise UsageError(f"the status of a response is an integer such as 200, not {status!r}")
        self._state.http_status = read_status(status, headers or {}, self.provider.traits.endpoint.error_name_header)
        self._has_failed = status >= 300

    def feed(self, data: Any) -> list[TurnEvent]:
        """Read the next input.

        Args:
            data: bytes of the response body, a chunk as a dict, or a chunk object of an official SDK; one kind a turn.
                A complete body that was not streamed is read as a turn that arrived at once.

        Returns:
            The events that the input caused, in order.

        Raises:
            UsageError: the turn is closed, or the input is of another kind than the first one.
        """
        framer = self._framer
        if framer is None or data.__class__ is not bytes:
            return self._feed_checked(data)
        state = self._state
        plain = self._plain
        if plain is not None and plain.read(data):
            if state.done:
                self._framer = None
            events, state.events = state.events, []
            return events
        whole = framer.take(data)
        try:
            if whole is not None:
                self._parser.frame(framer.name, whole)
            else:
                unread = iter(framer.feed(data))
                for name, payload in unread:
                    self._parser.frame(name, payload)
                    if state.done:
                        break
                if framer.overflow and not state.done:
                    self._report_overflow(framer)
        except (ValueError, RecursionError) as error:
            state.fail_value(error)
        if state.done:
            self._framer = None
            if whole is None and self._body is not None:
                self._body.unread = unread
        events, state.events = state.events, []
        if plain is not None:
            if whole is not None and len(events) == 1 and events[0].__class__ in _DELTAS:
                plain.learn(data)
            else:
                plain.head = None  # the parser's state may have changed
        return events

    def _feed_checked(self, data: Any) -> list[TurnEvent]:
        """Read input that is not known to be bytes of this wire."""
        if self.closed:
            raise UsageError("feed() after close(): make a new Turn for the next stream")
        state = self._state
        kind: Literal["bytes", "dict", "object"]
        if data.__class__ is bytes:
            kind = "bytes"
        elif isinstance(data, (bytes, bytearray, memoryview)):
            kind, data = "bytes", bytes(data)
        elif isinstance(data, dict):
            kind = "dict"
        elif isinstance(data, str):
            raise UsageError("feed() takes bytes, not str: pass the response's bytes undecoded")
        else:
            kind = "object"
        if self.input_kind is None:
            self.input_kind = kind
            self._parser = self.provider.parser(self._accumulator if self._markup is None else self._markup)
            if kind == "bytes":
                self._body = ResponseBody(self.provider.traits.framing, state.limits.frame, failed=self._has_failed)
        elif self.input_kind != kind:
            raise UsageError(f"feed() got {kind} after {self.input_kind}: a turn takes one kind of input")
        if state.done:
            return []
        if (body := self._body) is None:
            if kind == "object":
                try:
                    data = sdk_objects.dump_chunk(data)
                except RecursionError:  # the dump of an object is recursive
                    state.fail(StreamError("limit_exceeded", "a chunk's JSON is nested too deeply"))
                    return self._drain_events()
            if data is not None:  # None: an event that an SDK made in addition to the wire's
                self._chunks += 1
                self._parse(b"", data)
            return self._drain_events()
        for name, payload in (unread := iter(body.feed(data))):
            self._parse(name, payload)
            if self._state.done:
                body.unread = unread
                return self._drain_events()  # what follows the end changes nothing
        framer = body.framer
        if framer is not None and framer.overflow:
            self._report_overflow(framer)
        elif body.frames and self._accumulator.is_recognized():
            body.is_recognized, body.head = True, b""  # no error will need the beginning
            self._framer = framer
            if isinstance(framer, SseFramer) and self._markup is None and hasattr(self._parser, "plain_delta"):
                self._plain = PlainFrame(self._parser, framer.limit)  # type: ignore[arg-type]
            self._first_chunks = b""
        return self._drain_events()

    def _parse(self, name: bytes, chunk: bytes | dict[str, Any]) -> None:
        """Parse a frame or a chunk, and keep the beginning of another wire's input, by which an error names that."""
        try:
            if isinstance(chunk, bytes):
                self._parser.frame(name, chunk)
            else:
                self._parser.chunk(chunk)
        except (ValueError, RecursionError) as error:
            self._state.fail_value(error)
        if not self._accumulator.is_recognized() and chunk and len(self._first_chunks) < HEAD_SIZE:
            self._first_chunks += encode_head([(name[:HEAD_SIZE], chunk)])[:HEAD_SIZE]

    def _report_overflow(self, framer: Framer) -> None:
        """Report that the framer stopped: a frame exceeds its limit, or the framing itself is invalid."""
        self._framer = None
        if framer.error is None:
            self._state.report_limit(f"a frame exceeds {self._state.limits.frame} bytes")
        else:
            self._state.fail(StreamError("protocol_error", framer.error, raw=excerpt(framer.pending)))

    def close(self, error: BaseException | StreamError | None = None, *, complete: bool = False) -> list[TurnEvent]:
        """End the input. A second call does nothing.

        Args:
            error: the exception that the transport raised, if it did; or another error that ended the input.
            complete: the source reported an orderly end that the input does not show (an SDK's iterator).

        Returns:
            The last events of the turn.

        Raises:
            UsageError: the error is neither an exception nor a ``StreamError``.
        """
        if self.closed:
            return []
        if error is not None and not isinstance(error, (BaseException, StreamError)):
            raise UsageError(f"close() takes an exception, a StreamError or None, not {excerpt_repr(error)}")
        self.closed = True
        self._framer = None
        state, body, accumulator = self._state, self._body, self._accumulator
        if self._has_failed and (body is not None or state.error is None):
            state.fail(failed_response(body.head if body is not None else b"", state.http_status))
        else:
            if body is not None:
                if not state.done:
                    # After chunks of another wire, a last frame that is not JSON is no sign of truncation.
                    is_known = accumulator.is_recognized()
                    state.input_ended = is_known or accumulator.unrecognized_error().kind == "stream_truncated"
                    for name, payload in body.end(is_broken=error is not None):
                        if not state.done:
                            self._parse(name, payload)
                    state.input_ended = False
                first = body.framer.unseparated if body.framer is not None else None
                if first is not None and (warning := body.warning(first)) is not None:
                    state.warn("events_unseparated", warning)
            # Not after a transport error, which explains an incomplete frame.
            if error is None and state.error is None and not state.done:
                if body is not None:
                    body.is_recognized = body.is_recognized or accumulator.is_recognized()
                    if (diagnosed := body.diagnose(accumulator.unrecognized_error)) is not None:
                        state.fail(diagnosed)
                elif not accumulator.is_recognized():
                    no_body = StreamError("stream_truncated", "the body is empty")
                    state.fail(accumulator.unrecognized_error() if self._chunks else no_body)
        if self.input_kind is not None and not state.done:
            self._parser.end()
        if self._markup is not None:
            self._markup.close()
        failure = error if error is None or isinstance(error, StreamError) else to_turn_error(error)
        is_complete = complete and error is None and accumulator.is_recognized()
        accumulator.close(complete=is_complete, failure=failure)
        return self._drain_events()

    def _drain_events(self) -> list[TurnEvent]:
        state = self._state
        error = state.error
        if self._first_chunks and error is not None and error.kind == "protocol_error":
            if not self._accumulator.is_recognized():
                state.error = error_of_foreign_wire(error, self._first_chunks, self.provider)
                state.events = [
                    Failed(state.error) if isinstance(event, Failed) and event.error is error else event
                    for event in state.events
                ]
                self._first_chunks = b""
        events, state.events = state.events, []
        return events

    # ---------------------------------------------------------------- result

    @property
    def done(self) -> bool:
        """Whether nothing more will be read: the terminator was seen, or an error. Stop reading, close the response."""
        return self._state.done

    @property
    def turn_key(self) -> str | None:
        """The stable name of the turn; None while neither the caller nor the wire has set one."""
        return self._state.turn_key or self._state.response_id

    @property
    def _choice(self) -> Choice:
        return self._accumulator.turn_choice

    def call(self, id: str) -> ToolCall:
        """Return the call of a canonical id, of any choice.

        Args:
            id: the canonical id.

        Raises:
            UsageError: no choice has such a call.
        """
        for choice in self._accumulator.choices:
            call = choice.find_call(id)
            if call is not None:
                return call
        raise UsageError(f"this turn has no call {id!r}")

    def completed_call(self, index: int) -> ToolCall | None:
        """Return a call as it will run if it is complete before the turn has ended, else None.

        For tools that may start early: the wire has reported the call's end or, on OpenAI and Azure only, the call's
        object is closed and another call began. The turn may still fail, and then none of its calls may run.

        Args:
            index: the call's ``index``.
        """
        if self.closed or self._state.error is not None or self._state.turn_choice:
            return None  # the turn's choice is fixed at the end: before, only choice 0 is sure to be it once it began
        return self._choice.completed_call(index)

    @property
    def origin(self) -> dict[str, str]:
        """What makes the response, by ``provider``, ``endpoint``, ``model``, ``requested_model`` as far as known."""
        return self._state.origin

    @property
    def usage(self) -> Usage | None:
        """The tokens counted so far; None if the wire sent no figures."""
        return self._accumulator.total_usage

    @property
    def error(self) -> StreamError | None:
        """The error that ended the turn. The content before it stays readable."""
        if self.withdraw_error_reminder is not None:
            self.withdraw_error_reminder()
        return self._state.error

    def raise_for_error(self) -> None:
        """Raise the error that ended the turn, if there is one.

        Raises:
            StreamInterrupted: the turn's error.
        """
        if (error := self.error) is not None:
            raise StreamInterrupted(error, self, failures=[self.failed_request(error)])

    @property
    def warnings(self) -> list[StreamWarning]:
        """The irregularities that did not end the turn, in order."""
        return self._state.warnings

    @property
    def model(self) -> str | None:
        """The model, as the wire names it."""
        return self._state.model

    @property
    def response_id(self) -> str | None:
        """The provider's id of the response."""
        return self._state.response_id

    @property
    def metadata(self) -> dict[str, Any]:
        """Facts about the response without a property of their own (service tier), by the provider's names."""
        return self._state.metadata

    @property
    def choices(self) -> list[ChoiceView]:
        """One view per choice, by number; the turn's own properties are those of one of them."""
        choices = sorted(self._accumulator.choices, key=attrgetter("index"))
        return [ChoiceView(choice, self._state) for choice in choices]

    def to_dict(self) -> dict[str, Any]:
        """Return the turn as plain data for JSON."""
        names = (
            "model", "response_id", "turn_key", "text", "reasoning", "refusal", "calls", "executable",
            "server_calls", "finish", "usage", "error", "warnings",
        )  # fmt: skip
        values: dict[str, Any] = {"provider": self.provider.name} | {name: getattr(self, name) for name in names}
        values["executable"] = [call.id for call in self.executable]
        plain: dict[str, Any] = to_valid_json(msgspec.to_builtins(values, enc_hook=str))
        return plain
