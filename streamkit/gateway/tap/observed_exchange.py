"""One request and its response as they grow, for the page, for reports and for ``streamkit inspect``.

``ObservedExchange`` takes copies: the request, the status, the bytes, the end. It splits the bytes into frames and
reads them with another ``Turn``, so that each row has a frame and the events that it caused, each as a line of text.
Rows are encoded once, as JSON without secrets. The cost of a response is what the provider reports, else the list price
of its model, if it is known. The module is pure: it has no clock and no event loop, and times are given to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from streamkit.bridges.prices import list_price, reported_cost
from streamkit.calls import StreamError
from streamkit.events import TurnEvent, to_json
from streamkit.framing import DEFAULT_LIMIT, Frame
from streamkit.gateway.tap.display_text import (
    LONGEST_TEXT,
    FramePieces,
    clean_json,
    decode_json,
    request_text,
    shorten,
    show_text,
)
from streamkit.gateway.tap.timeline import Span, Timeline, answered_calls, match_calls
from streamkit.json_text import replace_lone_surrogates
from streamkit.reading.response_body import ResponseBody
from streamkit.reading.sdk_objects import dump_chunk
from streamkit.reading.source import BYTES
from streamkit.reading.turn import Turn

__all__ = [
    "ExchangeEnd",
    "ExchangeStart",
    "ObservedExchange",
    "event_line",
]


_LONGEST = 400  # characters


def event_line(event: dict[str, Any]) -> str:
    """Return one line that describes an event, without its type.

    Args:
        event: the event as plain data, as ``to_json`` has it.
    """
    match event:
        case {"type": "text" | "reasoning" | "refusal", "text": text}:
            line = str(text)
        case {"type": "tool_call_start" | "tool_call_end" | "tool_call_ready", "call": call}:
            line = " ".join(str(call[name]) for name in ("name", "state", "id") if call.get(name))
        case {"type": "tool_call_delta", "call": call, "arguments_delta": text}:
            line = f"{call['name']}  {text}"
        case {"type": "arguments_restated", "call": call, "arguments_text": text}:
            line = f"{call['name']}  {text}"
        case {"type": "usage_report", "usage": usage}:
            figures = {name: value for name, value in usage.items() if name != "raw" and value is not None}
            line = ", ".join(f"{figures[name]} {name.removesuffix('_tokens').replace('_', ' ')}" for name in figures)
        case {"type": "finished", "reason": reason}:
            raw = event.get("raw")
            line = str(reason) + ("" if raw in (None, reason) else f" ({raw})")
        case {"type": "failed", "error": error}:
            line = ": ".join(str(error[name]) for name in ("kind", "code", "message") if error.get(name))
        case {"type": "warned", "code": code, "message": message}:
            line = f"{code}: {message}"
        case {"type": "response_started"}:
            line = " ".join(str(event[name]) for name in ("model", "response_id") if event.get(name))
        case {"type": "server_tool", "name": name, "phase": phase}:
            data = event.get("data")
            shown = data if isinstance(data, str) else "" if data is None else msgspec.json.encode(data).decode()
            line = f"{name} {phase} {shown}".rstrip()
        case _:
            fields = {name: value for name, value in event.items() if name != "type" and value not in (None, 0, {}, [])}
            line = msgspec.json.encode(fields).decode() if fields else ""
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


_LONGEST_REQUEST = 512 * 1024  # characters that are shown of a request
_MOST_ROWS = 16 * 1024 * 1024  # bytes of the rows of one exchange that are kept


class ExchangeStart(Struct, frozen=True, kw_only=True):
    """The request of an exchange.

    Attributes:
        at: the time, in seconds since 1970; None if it is not known.
        method: the HTTP method of the client's request.
        path: its path, with the query if there is one.
        client: the wire of the client; None if it is not known.
        provider: the provider whose wire the response has; None if the response is not one of a model.
        address: the base URL of the upstream.
        model: the client's name of the model.
        upstream_model: the upstream's.
        request: the body that the upstream got: plain data, or bytes.
        secrets: texts that are masked wherever they appear.
    """

    at: float | None
    method: str
    path: str
    client: str | None = None
    provider: str | None = None
    address: str | None = None
    model: str | None = None
    upstream_model: str | None = None
    request: Any = None
    secrets: tuple[str, ...] = ()


class ExchangeEnd(Struct, frozen=True, kw_only=True):
    """The end of an exchange.

    Attributes:
        at: the time, in seconds since 1970; None if it is not known.
        request_id: the id that the client got; None for a pass-through.
        status: the HTTP status that the client got; None if it is that of the response.
        error: what failed outside of the response, such as the connection.
        disconnected: whether the client disconnected before the end.
        changes: a sentence for each thing of the request or the response that was changed or left out.
    """

    at: float | None
    request_id: str | None = None
    status: int | None = None
    error: str | None = None
    disconnected: bool = False
    changes: Sequence[str] = ()


class ObservedExchange:
    """A request and its response as they grow.

    Args:
        key: the number of the exchange.
        start: the request.
        pause: called while a long request is searched for secrets, as in ``redact``.
        earlier: the exchanges before it, the newest first. The one whose calls have their results in this request
            takes its time as the end of its tools.

    Attributes:
        key: the number of the exchange.
        rows: the newest rows, as JSON: ``n`` (the number of the row), ``at`` (seconds since the request, None if they
            are not known), ``frames``
            (``name``, ``data``) and ``events`` (``line``, a short text, and ``event``).
        first_row: the number of the first row that is kept.
        turn: the response; None if it is not one of a model.
        continued: the number of the earlier exchange whose calls have their results in this request; None if there is
            none, or it is not known.
    """

    def __init__(
        self,
        key: int,
        start: ExchangeStart,
        pause: Callable[[], object] | None = None,
        earlier: Iterable[ObservedExchange] = (),
    ) -> None:
        self.key = key
        self.rows: deque[bytes] = deque()
        self.first_row: int = 0
        self._secrets = start.secrets
        self._model = start.model or _named_model(start.request)
        request = None if start.request is None else request_text(start.request, start.secrets, pause)
        self._request = None if request is None else shorten(request, _LONGEST_REQUEST)
        self._start = replace(start, request=None)
        self._size = 0  # bytes of the rows
        self.turn: Turn | None = None
        if start.provider is not None:
            # Without a turn_key, like any other reader of the recording, so that the calls have the same ids.
            self.turn = Turn(start.provider, endpoint=start.address, model=start.upstream_model or self._model)
        framing = self.turn.provider.traits.framing if self.turn is not None else "sse"
        self._body = ResponseBody(framing, DEFAULT_LIMIT, failed=False)
        self._pieces = FramePieces()
        self._head = b""  # of the body, for one without frames
        self._bytes = 0
        self._last = start.at
        self._has_input = False
        self._first_byte: float | None = None
        self._status: int | None = None
        self._end: ExchangeEnd | None = None
        self._notes: list[str] = []
        self._lost = 0  # parts of the response
        self._list_price: float | None = None  # in dollars
        self._timeline = Timeline()
        self._next: ObservedExchange | None = None  # whose request has the results of the calls
        self.continued: int | None = None
        alike = [each for each in earlier if each._has_open_calls(start)]
        answered = answered_calls(start.request, start.provider) if alike and start.provider else []
        ranks = [match_calls(each.turn.calls if each.turn else (), answered) for each in alike]
        if any(ranks):
            before = alike[ranks.index(max(ranks))]
            before._next, self.continued = self, before.key

    def _has_open_calls(self, later: ExchangeStart) -> bool:
        """Return whether a later request of the same kind may have the results of the calls."""
        is_alike = (self._start.provider, self._start.path) == (later.provider, later.path)
        return is_alike and self._next is None and self.turn is not None and bool(self.turn.calls)

    # ---------------------------------------------------------------- growth

    def respond(self, at: float | None, status: int, headers: Mapping[str, str]) -> None:
        """Take the status and the headers of the response."""
        self._status = status
        self._last = at
        if self.turn is not None and self.turn.input_kind is None and not self.turn.closed:
            self.turn.response(status, headers)

    def receive(self, at: float | None, data: Any) -> None:
        """Take the next input: bytes of the body, or a chunk as a dict or an SDK's object."""
        if self._end is not None:
            return
        self._last = at if at is not None else self._last
        if not self._has_input:
            self._has_input = True
            self._first_byte = at
        if not isinstance(data, BYTES):
            chunk = dump_chunk(data) if not isinstance(data, dict) else data
            frames = [] if chunk is None else [(b"", msgspec.json.encode(chunk, enc_hook=str))]
            self._add_row(at, frames, self._feed(data))
            return
        data = bytes(data)
        self._bytes += len(data)
        if len(self._head) < LONGEST_TEXT:
            self._head += data[: LONGEST_TEXT - len(self._head)]
        if self.turn is None:
            self._add_row(at, [(b"", data)], [])
            return
        for piece in self._pieces.cut(data):
            self._add_row(at, self._body.feed(piece), self._feed(piece))

    def _feed(self, data: Any) -> Sequence[TurnEvent]:
        return self.turn.feed(data) if self.turn is not None else ()

    def lose(self, count: int) -> None:
        """Take the number of parts of the response that could not be taken."""
        self._lost += count

    def add_note(self, note: str) -> None:
        """Add a sentence about the observation, such as a body that cannot be decompressed."""
        if note not in self._notes:
            self._notes.append(note)

    def end(self, end: ExchangeEnd) -> None:
        """Take the end. A second one is ignored."""
        if self._end is not None:
            return
        self._end = end
        self._last = end.at
        events: Sequence[TurnEvent] = ()
        if self.turn is not None:
            failure = "the client disconnected" if end.disconnected else end.error
            # An error after the last byte is that of the response itself, which the turn reports in its own words.
            is_cut = end.disconnected or (failure is not None and self._status is None)
            events = self.turn.close(StreamError("transport_error", failure) if is_cut and failure else None)
            self._list_price = list_price(self.turn)
        frames = self._body.end()
        has_rows = bool(self.rows or self.first_row or frames)
        if not has_rows and self._head:
            frames = [(b"", self._head)]
        self._add_row(end.at, frames, events)

    def _add_row(self, at: float | None, frames: Sequence[Frame], events: Sequence[TurnEvent]) -> None:
        if not frames and not events:
            return
        shown = [
            {"name": show_text(name, self._secrets), "data": show_text(data, self._secrets)} for name, data in frames
        ]
        described = [clean_json(to_json(event), self._secrets) for event in events]
        number, seconds = self.first_row + len(self.rows), self._since_start(at)
        self._timeline.add(events, number, seconds)
        row = {
            "n": number,
            "at": seconds,
            "frames": shown,
            "events": [{"line": event_line(decode_json(data)), "event": msgspec.Raw(data)} for data in described],
        }
        line = msgspec.json.encode(row)
        self.rows.append(line)
        self._size += len(line)
        while self._size > _MOST_ROWS and len(self.rows) > 1:
            self._size -= len(self.rows.popleft())
            self.first_row += 1

    # ---------------------------------------------------------------- views

    @property
    def size(self) -> int:
        """The bytes that the exchange keeps, about: rows, request and response."""
        return self._size + len(self._request or "") + self._bytes

    @property
    def is_finished(self) -> bool:
        """Whether the exchange has ended."""
        return self._end is not None

    @property
    def state(self) -> str:
        """``waiting`` (for the response), ``streaming``, ``finished``, ``failed`` or ``disconnected`` (the client)."""
        if self._end is None:
            return "streaming" if self._has_input else "waiting"
        if self._end.disconnected:
            return "disconnected"
        return "failed" if self._error() is not None else "finished"

    def summary(self) -> dict[str, Any]:
        """Return the facts of the exchange, without its rows, as plain data."""
        start, turn, end = self._start, self.turn, self._end
        usage = turn.usage if turn is not None else None
        cost = reported_cost(usage)
        figures = {} if usage is None else {name: getattr(usage, name) for name in usage.__struct_fields__}
        notes = list(self._notes)
        if self._lost:
            parts = "1 part" if self._lost == 1 else f"{self._lost} parts"
            notes.append(f"{parts} of the response came faster than they could be shown and are missing here")
        if self.first_row:
            notes.append(f"the first {self.first_row} rows are no longer kept")
        if self._timeline.hidden:
            notes.append(f"the timeline does not show the last {self._timeline.hidden} parts of the response")
        summary: dict[str, Any] = {
            "id": self.key,
            "at": start.at,
            "method": start.method,
            "path": start.path,
            "client": start.client,
            "provider": start.provider,
            "address": start.address,
            "model": self._model,
            "upstream_model": start.upstream_model,
            "served_model": turn.model if turn is not None else None,
            "response_id": turn.response_id if turn is not None else None,
            "state": self.state,
            "status": end.status if end is not None and end.status is not None else self._status,
            "seconds": self._since_start(self._last),
            "first_byte": self._since_start(self._first_byte),
            "bytes": self._bytes,
            "rows": self.first_row + len(self.rows),
            "calls": len(turn.calls) if turn is not None else 0,
            "finish": turn.finish if turn is not None else None,
            "usage": None
            if usage is None
            else {name: figure for name, figure in figures.items() if name != "raw" and figure is not None},
            "cost": cost if cost is not None else self._list_price,
            "is_list_price": cost is None and self._list_price is not None,
            "warnings": turn.warnings if turn is not None else [],
            "error": self._error(),
            "changes": list(end.changes) if end is not None else [],
            "notes": notes,
            "timeline": self._spans(),
        }
        plain = replace_lone_surrogates(msgspec.to_builtins(summary, enc_hook=str))
        data: dict[str, Any] = msgspec.json.decode(clean_json(msgspec.json.encode(plain), self._secrets))
        return data

    def _spans(self) -> list[Span]:
        """Return the parts of the exchange in the order of time."""
        spans = list(self._timeline.spans)
        if self._start.at is not None and (self._first_byte is not None or not self._has_input):
            waited = self._first_byte if self._has_input or self._end is None else self._end.at
            spans.insert(0, Span(kind="waiting", start=0.0, end=self._since_start(waited)))
        if self._next is not None:
            start, end = self._since_start(self._last), self._since_start(self._next._start.at)
            if start is not None and end is not None:
                start = min(start, end)  # a client may send it before the end of this exchange is reported
            spans.append(Span(kind="tools", start=start, end=end, next=self._next.key))
        return spans

    def detail(self) -> bytes:
        """Return all that is shown of the exchange, as JSON."""
        return msgspec.json.encode(
            {
                "summary": self.summary(),
                "request": self._request,
                "first_row": self.first_row,
                "rows": [msgspec.Raw(row) for row in self.rows],
            }
        )

    @property
    def request(self) -> str | None:
        """The text of the request's body, without secrets."""
        return self._request

    def rows_from(self, number: int) -> Iterator[bytes]:
        """Yield the rows with this number and later ones, those that are kept."""
        yield from islice(self.rows, max(number - self.first_row, 0), None)

    def _since_start(self, at: float | None) -> float | None:
        """Return the seconds from the request to a time; None if one of the two is not known."""
        start = self._start.at
        return None if at is None or start is None else round(max(at - start, 0.0), 4)

    def _error(self) -> dict[str, Any] | None:
        error = self.turn.error if self.turn is not None else None
        reported = self._end.error if self._end is not None else None
        # Why a response is truncated is known where it was read.
        if error is not None and not (error.kind == "stream_truncated" and reported is not None):
            shown = {"kind": error.kind, "code": error.code, "message": error.message, "status": error.status}
            return {name: value for name, value in shown.items() if value is not None}
        if reported is not None:
            return {"message": reported}
        if self.turn is None and self._end is not None and (self._end.status or self._status or 0) >= 400:
            return {"message": f"HTTP status {self._end.status or self._status}"}
        return None


def _named_model(body: Any) -> str | None:
    """Return the model that the body of a request names."""
    if isinstance(body, BYTES):
        with suppress(ValueError, RecursionError):
            body = msgspec.json.decode(body)
    model = body.get("model") if isinstance(body, dict) else None
    return model if isinstance(model, str) else None
