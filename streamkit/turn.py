"""One turn of a model, from whatever brings it: the framer, the parser and the accumulator in one place.

``Turn`` is to streamkit what a connection is to an HTTP library: everything revolves around it. ``feed`` takes the
next piece and returns the events it brought; it never awaits and never raises for what the wire sent, so a result
cannot depend on where the network cut the bytes. It does no I/O and knows no vendor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from streamkit import providers, sdk_objects
from streamkit.accumulator import Accumulator, Limits
from streamkit.accumulator.choice import Choice
from streamkit.calls import Finish, ServerCall, StreamError, StreamWarning, ToolCall, Usage
from streamkit.errors import StreamInterrupted, UsageError
from streamkit.events import Event
from streamkit.framing import Framer
from streamkit.json_text import replace_lone_surrogates
from streamkit.providers.decoding import excerpt, read_json
from streamkit.providers.provider import Provider
from streamkit.response_body import ResponseBody, failed_response, retry_after

if TYPE_CHECKING:
    from streamkit.history import Content
    from streamkit.leaked_markup import LeakedMarkup, MarkupSink

__all__ = ["ChoiceView", "Turn"]


class ChoiceView:
    """One of several answers, where more than one was asked for (``n`` > 1)."""

    __slots__ = ("_answer", "_turn")

    def __init__(self, turn: Turn, answer: Choice) -> None:
        self._turn = turn
        self._answer = answer

    @property
    def index(self) -> int:
        """The choice's number."""
        return self._answer.index

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return self._answer.joined_text("text")

    @property
    def reasoning(self) -> str:
        """The reasoning so far, of every kind."""
        return self._answer.joined_text("reasoning")

    @property
    def refusal(self) -> str | None:
        """What the model said in refusal; None where it did not refuse."""
        return self._answer.joined_text("refusal") or None

    @property
    def calls(self) -> list[ToolCall]:
        """The client's tool calls, in order of first appearance, in every state."""
        return self._answer.calls

    @property
    def executable(self) -> list[ToolCall]:
        """The calls that may run: complete ones of a confirmed turn without error. Empty until the turn is closed."""
        return [call.snapshot() for call in self._answer.executable]

    @property
    def server_calls(self) -> list[ServerCall]:
        """The calls that the provider ran itself, with their results."""
        return self._answer.server_calls

    @property
    def finish(self) -> Finish | None:
        """Why the model stopped; None until the turn is closed, and where it was not confirmed."""
        return self._answer.finished

    @property
    def content(self) -> Content:
        """The assistant's content, blocks in order, opaque state kept: ready for history."""
        from streamkit.accumulator.to_content import choice_to_content

        return choice_to_content(
            self._answer,
            provider=self._turn.provider.name,
            model=self._turn.model,
            response_id=self._turn.response_id,
            turn_key=self._turn.turn_key,
        )


class Turn:
    """A model's turn, fed piece by piece.

    Args:
        provider: a provider's name, or an object that is one.
        turn_key: the stable name of the turn, a part of its calls' ids; by default the response id that the wire sends.
        limits: how much a turn may hold.
        recover_trailing_junk: whether a call whose whole arguments are followed by something else counts as whole.
        leaked_markup: what becomes of a model's own tool-call markup that its server leaves in the text (DSML,
            DeepSeek's and Kimi's tokens, Hermes, Qwen). ``keep``: it is text. ``strip``: it is taken out. ``recover``:
            it becomes the calls that it was meant to be, at its place; what does not parse stays text. With the last
            two the control tokens of gpt-oss are cut off the names of calls, and text that may be the beginning of
            markup waits for what follows. Both warn of what they found. See ``streamkit.leaked_markup``.

    Raises:
        UnknownProvider: no provider has that name; the message lists those there are.
        UsageError: ``leaked_markup`` is none of the three.
    """

    __slots__ = (
        "__weakref__",
        "_accumulator",
        "_answer",
        "_body",
        "_chunks",
        "_closed",
        "input_kind",
        "_events",
        "_frame",
        "_framer",
        "_fast_path",
        "_markup",
        "_parser",
        "_status",
        "provider",
    )

    def __init__(
        self,
        provider: str | Provider,
        turn_key: str | None = None,
        *,
        limits: Limits | None = None,
        recover_trailing_junk: bool = True,
        leaked_markup: LeakedMarkup = "keep",
    ) -> None:
        self.provider: Provider = providers.get(provider)
        self._accumulator = Accumulator(
            self.provider.name,
            self.provider.traits,
            turn_key=turn_key,
            limits=limits,
            recover_trailing_junk=recover_trailing_junk,
        )
        self._answer = ChoiceView(self, self._accumulator.choice(0))
        self._events = self._accumulator.events
        self._markup = None if leaked_markup == "keep" else _markup_sink(self._accumulator, leaked_markup)
        self._parser = self.provider.parser(self._accumulator if self._markup is None else self._markup)
        self._frame = self._parser.frame
        self._framer: Framer | None = None
        self._fast_path = False  # bytes come, and what came is of this wire: the next piece takes the short path
        self._body: ResponseBody | None = None  # of the bytes door
        self._chunks = 0  # fed by the other doors
        self.input_kind: str | None = None  # "bytes", "dict" or "object"
        self._status: tuple[int, float | None] = (0, None)  # of the response, and how long to wait
        self._closed = False

    # ---------------------------------------------------------------- in

    def response(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        """What HTTP said, before the first piece. A status of 400 or more makes the body an error.

        Raises:
            UsageError: pieces were fed already.
        """
        if self.input_kind is not None or self._closed:
            raise UsageError("Turn.response() comes before the first feed()")
        self._status = self._accumulator.status = (status, retry_after(headers or {}))

    def feed(self, data: Any) -> list[Event]:
        """Take the next piece and return the events that it brought.

        Args:
            data: bytes of the response body, a chunk as a dict, or a chunk object of an official SDK; one kind a turn.
                A whole body of the not streamed kind is read as a turn that arrived at once.

        Raises:
            UsageError: the turn is closed, or this is another kind of piece than the first one was.
        """
        if not self._fast_path or data.__class__ is not bytes:
            return self._feed_first(data)
        accumulator = self._accumulator
        frame = self._frame
        framer = self._framer
        for name, payload in framer.feed(data):  # type: ignore[union-attr]  # hot: there is one
            frame(name, payload)
            if accumulator.done:
                self._fast_path = False
                break
        if framer.overflow:  # type: ignore[union-attr]
            self._overflow()
        events = self._events[:]
        self._events.clear()
        return events

    def _feed_first(self, data: Any) -> list[Event]:
        """A piece for which it is not yet plain that it is the next bytes of this wire."""
        if self._closed:
            raise UsageError("feed() after close(): make a new Turn for the next stream")
        accumulator = self._accumulator
        try:
            data = self._check_input(data)
        except RecursionError:  # of an SDK's object, which dumps itself by recursion
            accumulator.fail(StreamError("limit_exceeded", "a chunk's JSON is nested too deeply"))
            return self._take()
        if accumulator.done:
            return []
        body = self._body
        if body is None:
            if data is not None:  # else an SDK's own event, beside the wire's
                self._chunks += 1
                self._parser.chunk(data)
            return self._take()
        for name, payload in body.feed(data):
            if not accumulator.done:
                self._frame(name, payload)
        if body.framer is not None and body.framer.overflow:
            self._overflow()
        elif body.frames and accumulator.is_recognized(body.frames) and not accumulator.done:
            body.is_recognized = self._fast_path = True  # it is this wire: from here on a piece needs no looking at
            self._framer = body.framer
        return self._take()

    def _overflow(self) -> None:
        """The framer gives nothing more: a frame is too long, or the framing itself is broken."""
        self._fast_path = False
        framer = self._body.framer if self._body is not None else None
        if framer is not None and framer.error is not None:
            if not self._accumulator.done:
                self._accumulator.fail(StreamError("protocol_error", framer.error, excerpt(framer.pending)))
        else:
            self._accumulator.report_limit(f"a frame passed {self._accumulator.limits.frame} bytes")

    def close(self, error: BaseException | None = None, *, complete: bool = False) -> list[Event]:
        """The end of the input; returns the last events. A second close does nothing.

        Args:
            error: what the transport raised, where it did.
            complete: the source itself reported an orderly end that the pieces do not show (an SDK's iterator).
        """
        if self._closed:
            return []
        self._closed = True
        self._fast_path = False
        accumulator = self._accumulator
        if self._body is not None and self._body.failed:
            accumulator.fail(failed_response(self._body.head, *self._status))
        elif self._status[0] >= 400 and accumulator.error is None:
            accumulator.fail(failed_response(b"", *self._status))
        elif self._body is not None:
            self._close_body(self._body, judge=error is None)
        elif error is None and not accumulator.is_recognized(self._chunks):
            accumulator.fail(
                StreamError("protocol_error", "nothing that was fed is of this wire")
                if self._chunks
                else StreamError("stream_truncated", "the body is empty")
            )
        if self.input_kind is not None and not accumulator.done:
            self._parser.end()
        if error is not None:
            message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            if accumulator.confirmed:
                accumulator.warn("transport_error", f"after the end of the answer: {message}")
            else:
                accumulator.fail(StreamError("transport_error", message, raw=message))
        if self._markup is not None:
            self._markup.close()
        accumulator.close(complete=complete and error is None)
        return self._take()

    def _check_input(self, data: Any) -> Any:
        """Check the kind of a piece; give it as bytes or a dict."""
        if isinstance(data, (bytes, bytearray, memoryview)):
            door, data = "bytes", bytes(data)
        elif isinstance(data, dict):
            door = "dict"
        elif isinstance(data, str):
            raise UsageError("feed() takes bytes, not text: give it the response's bytes as they come")
        else:
            door = "object"
        if self.input_kind is None:
            self.input_kind = door
            if door == "bytes":
                limit = self._accumulator.limits.frame
                self._body = ResponseBody(self.provider.traits.framing, limit, failed=self._status[0] >= 400)
        elif self.input_kind != door:
            raise UsageError(f"feed() was given {door} after {self.input_kind}: one kind of piece a turn")
        return sdk_objects.to_plain(data) if door == "object" else data

    def _close_body(self, body: ResponseBody, *, judge: bool) -> None:
        """What the end of the bytes completes, and whether any of it was this wire's."""
        accumulator = self._accumulator
        if accumulator.done:
            return
        accumulator.at_end = True
        for name, payload in body.end():
            if judge or _is_json(payload):  # a half frame of a broken connection is not judged
                self._frame(name, payload)
        accumulator.at_end = False
        if judge and accumulator.error is None and not accumulator.done:
            body.is_recognized = body.is_recognized or accumulator.is_recognized(body.frames)
            wrong = body.diagnose()
            if wrong is not None:
                accumulator.fail(wrong)

    def _take(self) -> list[Event]:
        events = self._events[:]
        self._events.clear()
        return events

    # ---------------------------------------------------------------- out

    @property
    def done(self) -> bool:
        """The wire's terminator was seen, or nothing more can be read: stop reading and close the response."""
        return self._accumulator.done

    @property
    def closed(self) -> bool:
        """``close`` was called."""
        return self._closed

    @property
    def turn_key(self) -> str | None:
        """The stable name of the turn; None while neither the caller nor the wire gave one."""
        return self._accumulator.turn_key or self._accumulator.response_id

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return self._answer.text

    @property
    def reasoning(self) -> str:
        """The reasoning so far, of every kind."""
        return self._answer.reasoning

    @property
    def refusal(self) -> str | None:
        """What the model said in refusal; None where it did not refuse."""
        return self._answer.refusal

    @property
    def calls(self) -> list[ToolCall]:
        """The client's tool calls, in order of first appearance, in every state."""
        return self._answer.calls

    def call(self, id: str) -> ToolCall:
        """The call of that canonical id.

        Raises:
            UsageError: the turn has no such call.
        """
        for call in self._accumulator.choice(0).tracker.calls:
            if call.ref is not None and call.ref.id == id:
                return call.snapshot()
        raise UsageError(f"this turn has no call {id!r}")

    def completed_call(self, index: int) -> ToolCall | None:
        """A call that is known to be whole although the turn goes on, as it would run; None where that is not known.

        For tools that may start before the turn has ended. The wire said that the call is over (or, on OpenAI and Azure
        alone, its object is closed and another call began). A closed object by itself is no sign: some servers send
        arguments anew. The turn may still fail, and then none of its calls may run.

        Args:
            index: the call's ``index``.
        """
        if self._closed or self._accumulator.error is not None:
            return None
        return self._accumulator.choice(0).completed_call(index)

    @property
    def executable(self) -> list[ToolCall]:
        """The calls that may run: complete ones of a confirmed turn without error. Empty until the turn is closed."""
        return self._answer.executable

    @property
    def server_calls(self) -> list[ServerCall]:
        """The calls that the provider ran itself, with their results."""
        return self._answer.server_calls

    @property
    def finish(self) -> Finish | None:
        """Why the model stopped; None until the turn is closed, and where it was not confirmed."""
        return self._answer.finish

    @property
    def usage(self) -> Usage | None:
        """The tokens counted so far; None where the wire gave none."""
        return self._accumulator.total_usage

    @property
    def error(self) -> StreamError | None:
        """What ended the turn badly; what came before stays readable."""
        return self._accumulator.error

    def raise_for_error(self) -> None:
        """Raise what ended the turn badly, if anything did.

        Raises:
            StreamInterrupted: the turn's error.
        """
        if self._accumulator.error is not None:
            raise StreamInterrupted(self._accumulator.error, self)

    @property
    def warnings(self) -> list[StreamWarning]:
        """What was odd, in order."""
        return self._accumulator.warnings

    @property
    def content(self) -> Content:
        """The assistant's content, blocks in order, opaque state kept: ready for history."""
        return self._answer.content

    @property
    def model(self) -> str | None:
        """The model that answers, as the wire names it."""
        return self._accumulator.model

    @property
    def response_id(self) -> str | None:
        """The provider's id of the response."""
        return self._accumulator.response_id

    @property
    def choices(self) -> list[ChoiceView]:
        """One view per choice, by number; the turn's own properties are those of choice 0."""
        return [ChoiceView(self, answer) for _, answer in sorted(self._accumulator.choices.items())]

    def to_dict(self) -> dict[str, Any]:
        """The turn as plain data that JSON can hold."""
        whole: dict[str, Any] = replace_lone_surrogates(
            msgspec.to_builtins(
                {
                    "provider": self.provider.name,
                    "model": self.model,
                    "response_id": self.response_id,
                    "turn_key": self.turn_key,
                    "text": self.text,
                    "reasoning": self.reasoning,
                    "refusal": self.refusal,
                    "calls": self.calls,
                    "executable": [call.id for call in self.executable],
                    "server_calls": self.server_calls,
                    "finish": self.finish,
                    "usage": self.usage,
                    "error": self.error,
                    "warnings": self.warnings,
                },
                enc_hook=str,
            )
        )
        return whole


def _markup_sink(accumulator: Accumulator, mode: LeakedMarkup) -> MarkupSink:
    """What stands before the accumulator where leaked markup is not kept; few need it, so it is loaded here."""
    from streamkit.leaked_markup import MarkupSink

    return MarkupSink(accumulator, mode)


def _is_json(payload: bytes) -> bool:
    try:
        read_json(payload)
    except (ValueError, RecursionError):
        return False
    return True
