"""The relay of one wire: the frames of an upstream for a client that speaks its dialect.

The turn decodes the frames beside, for its events. A frame in which nothing has to change is passed on byte for byte;
one in which something must is decoded, changed in these fields alone (`WirePlaces`) and encoded, so fields and events
that nobody knows yet arrive as they came (docs/rules.md, "The same wire"). The framing is the client's: what the framer
reads is written in its usual form. What is no frame of the upstream, such as an error, is written by the writer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, cast

import msgspec

from streamkit.calls import CallRef, FinishReason
from streamkit.events import (
    ArgumentsRestated,
    BlockEnded,
    BlockStarted,
    Event,
    Failed,
    Finished,
    ResponseStarted,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
    Unknown,
    UsageReport,
    Warned,
)
from streamkit.framing import framer_for
from streamkit.framing.event_stream import encode_message
from streamkit.gateway.translation.passed_calls import PassedCalls
from streamkit.gateway.translation.recorded_frames import Frame, RecordedProvider
from streamkit.ids import TargetIds, normalize_index
from streamkit.providers.decoding.decoding import read_json
from streamkit.providers.decoding.finish_reasons import is_reason, read_finish_reason
from streamkit.providers.writing.encoding import encode_chunk, encode_json
from streamkit.providers.writing.wire_output import Json, WirePlaces, find_places
from streamkit.providers.writing.writer import Writer
from streamkit.reading.turn import Turn

__all__ = ["WireRelay"]

#: The events that are no content: after the finish, their frames wait for what may still change it.
_NO_CONTENT = frozenset(
    {BlockStarted, BlockEnded, ResponseStarted, ToolCallEnd, ToolCallReady, Unknown, UsageReport, Warned}
)
_sequence_numbers = re.compile(rb'"sequence_number"\s*:\s*(\d{1,18})').findall
_has_constant = re.compile(rb"[:,\[]\s*-?(?:NaN|Infinity)\b").search  # no JSON: as null a call would be another
_OF_CALLS = (ToolCallStart, ToolCallDelta, ArgumentsRestated)
_MOST_HELD = 64  # frames; what more of them tells is not waited for


class WireRelay:
    """The relay of one response.

    Args:
        turn: the upstream's response.
        provider: the provider of the turn.
        writer: the writer of the client's response, which gets the error; its wire has ``places``.
        wrap: returns opaque state as one text that the client carries.
        model: the name of the model that the client gets; None for the upstream's.
        usage_chunk: the client has asked for a chunk with the token counts alone.
        is_whole: the response of the client is not streamed.

    Attributes:
        passed_events: those that the writer gets before the first one that it writes; the client has their frames.
    """

    def __init__(
        self,
        turn: Turn,
        provider: RecordedProvider,
        writer: Writer,
        wrap: Callable[[Json], str],
        *,
        model: str | None,
        usage_chunk: bool,
        is_whole: bool,
    ) -> None:
        self._turn, self._provider, self._writer = turn, provider, writer
        self._is_whole = is_whole
        self._traits = writer.traits
        self._places = places = cast("WirePlaces", writer.places)
        self._of_calls = (*_OF_CALLS, ToolCallEnd) if places.item_id else _OF_CALLS  # an item has an end of its own
        self._wrap = wrap
        self._model = model if places.model else None
        self._usage_chunk = usage_chunk or not places.has_usage_chunk
        self._replace_ids = re.compile(rb'("%b"\s*:\s*")([^"\\]+)' % places.item_id.encode()).sub
        self._has_mark = re.compile(_marks(places, has_model=self._model is not None)).search
        self._ids = TargetIds(self._traits.id_rule)
        self._started: set[str] = set()  # the canonical ids of calls
        self._by_raw_id: dict[Any, CallRef] = {}
        self._without_ids: list[CallRef] = []
        self._by_index: dict[Any, CallRef] = {}  # the last call of each index of a choice
        self._choices_with_calls: set[Hashable] = set()
        self._item_ids: dict[str, str] = {}  # by the upstream's
        self._items: dict[str, Json] = {}  # by their ids, as they were last
        self._finishes: dict[Hashable, FinishReason] = {}
        self._held: list[tuple[bytes, bytes, Any]] = []  # the frames from the finish on
        self._unstarted: list[tuple[bytes, Json]] = []  # the frames of calls that have not started
        self._has_begun = self._is_translated = False
        self._last = b""  # the last payload, or read
        self._plain_change: tuple[bytes, bytes] | None = None  # a text in it and what replaces it, if that is all
        self._has_end = False  # the upstream has ended the stream
        self._passed_on = PassedCalls(places, turn)
        self.passed_events: Sequence[Event] = ()
        self._separators = chain((b"[",), repeat(b"\n,\r\n"))

    def relay(self, events: Sequence[Event], data: Any) -> tuple[bytes, Sequence[Event]]:
        """Return the client's bytes for the frames of the last input, and the events that have to be written.

        All have for a response that is not streamed, and if the upstream has sent a document instead of a stream; those
        from a frame on whose calls cannot be passed on (`PassedCalls`).

        Args:
            events: the events that it has caused.
            data: the input.
        """
        if self._is_whole:
            return b"", events
        frames, self._provider.frames = self._provider.frames, []
        if not self._has_begun:
            body, expected = self._turn._body, type(framer_for(self._provider.traits.framing, limit=1))
            self._is_translated |= body is None or type(body.framer) is not expected
        if self._is_translated:
            return b"", events
        self._has_begun, is_plain = True, not frames
        if is_plain and not self._turn.closed:  # a plain frame: the last one with another text
            self._last = data
            if self._plain_change is not None:
                return self._in_line_ends(data.replace(*self._plain_change, 1)), ()
            framed = framer_for("sse", limit=len(data) + 1).feed(data)
            frames = [Frame(name, payload, events, is_last=False) for name, payload in framed]
        parts, done = list[bytes](), 0
        for frame in frames:
            if not (is_plain or frame.is_last) and self._passed_on.ends_at(frame.payload, frame.events):
                self._is_translated = True
                rest = [event for event in events if event.__class__ is not Warned][done:]
                self.passed_events = self._passed_on.events_before(rest)
                return b"".join(parts), rest
            done += sum(event.__class__ is not Warned for event in frame.events)
            parts += self._pass_on(frame)
            self._passed_on.add(frame.events)
        if self._unstarted:
            late = [each for each in events if isinstance(each, ToolCallStart) and each.call.id not in self._started]
            parts += self._start_calls(late) if late else ()
        for event in events:
            if isinstance(event, Finished):
                self._finishes[event.choice] = event.reason
            elif isinstance(event, Failed):
                self._writer.error = self._writer.error or event.error
        return b"".join(parts), ()

    def close(self) -> bytes:
        """Return the end of the response: the frames from the finish on and the terminator, or the error."""
        writer = self._writer
        body: bytes | None = None
        if self._is_whole:
            body = None if self._turn.error is not None else self._body()
        if self._is_translated or (self._is_whole and body is None):
            return writer.close()
        writer.items = list(self._items.values())
        if body is not None:
            writer.omitted.clear()
            return body
        if self._turn.error is not None:
            writer.frames(ResponseStarted(writer.response_id, writer.model))
            if numbers := _sequence_numbers(self._last):
                writer.event_count = int(numbers[-1]) + 1
            data = writer.close()
            is_within = self._traits.framing == "json_array" and self._last
            return next(self._separators) + data.removeprefix(b"[") if is_within else data
        parts = [*self._start_calls([]), *self._take_held()]
        name, payload = self._places.terminator
        has_end = self._has_end
        if self._traits.end_marker:
            payload = self._traits.end_marker.encode()
            has_end = self._last.strip() == payload
        if payload and not has_end:
            parts.append(self._encode(name, payload))
        if self._traits.framing == "json_array":
            parts.append(b"\n]\n")
        return b"".join(parts)

    def _body(self) -> bytes | None:
        """Return the body that the chunks build; None if it is not the response of the turn, and must be translated.

        The writer builds it as of chunks of its own, so all of their fields are in it. Of chunks that the writer never
        makes it may be another response.
        """
        frames = self._provider.frames
        starts = [event for frame in frames for event in frame.events if isinstance(event, ToolCallStart)]
        chunks: list[Json] = []
        for name, payload, events, _ in frames:
            if (chunk := _decode(payload)) is None:
                continue
            refs = [event.call for event in events if isinstance(event, (ToolCallStart, ToolCallDelta))]
            self._change(chunk, starts, refs)
            chunks.append({name.decode(errors="ignore"): chunk} if self._traits.framing == "event_stream" else chunk)
        try:
            body = self._writer.body(chunks)
        except (LookupError, TypeError, ValueError, AttributeError):
            return None
        self._set_finishes(body)
        again = Turn(self._provider.recorded)
        again.feed(data := encode_json(body))
        again.close()
        return data if _substance(again) == _substance(self._turn) else None

    # ------------------------------------------------------------ frames

    def _pass_on(self, frame: Frame) -> Iterator[bytes]:
        name, payload, events, self._has_end = frame
        if self._has_end and self._turn.error is not None:
            return  # the error comes instead
        chunk: Any = None
        self._plain_change = None if self._places.item_id else (b"", b"")
        kinds, is_finish = {event.__class__ for event in events}, False
        has_calls = not (self._places.item_id or kinds.isdisjoint(_OF_CALLS))  # those of items are changed with these
        has_usage, is_content = UsageReport in kinds, not kinds <= _NO_CONTENT
        if self._places.item_id:
            payload = self._replace_ids(
                lambda found: found[1] + self._item_id(found[2].decode(errors="replace")).encode(), payload
            )
        if has_calls or (has_usage and not self._usage_chunk) or self._has_mark(payload):
            chunk = _decode(payload)
        if chunk is not None:
            is_finish = any(is_reason(holder[key]) for holder, key in find_places(chunk, self._places.finish))
            if has_usage and not self._usage_chunk and self._moves_usage(chunk):
                return
            starts = [event for event in events if isinstance(event, ToolCallStart)]
            refs = list({event.call.id: event.call for event in events if isinstance(event, self._of_calls)}.values())
            if starts:
                yield from self._start_calls(starts)
                refs = [ref for ref in refs if ref.id not in self._started]  # those of this frame
            if not refs and any(self._is_unknown(choice, call) for choice, call in self._find_calls(chunk)):
                self._unstarted.append((name, chunk))
                if len(self._unstarted) > _MOST_HELD:
                    yield from self._start_calls([])
                return
            models = [(key, holder[key]) for holder, key in find_places(chunk, self._places.model)]
            is_changed = self._change(chunk, starts, refs)
            if is_finish and is_content:
                is_changed |= self._set_finishes(chunk)
            if is_changed:
                payload = self._replace(payload, chunk, models)
        self._last = payload
        waits = is_finish or self._held or (self._has_end and self._unstarted)
        if waits and not is_content:
            self._held.append((name, payload, chunk if is_finish else None))
            if len(self._held) > _MOST_HELD:
                yield from self._take_held()
            return
        for held_name, held_payload, finish in self._held:
            if finish is None:  # what begins the content
                yield self._encode(held_name, held_payload)
        self._held = [held for held in self._held if held[2] is not None]
        yield self._encode(name, payload)

    def _take_held(self) -> Iterator[bytes]:
        """Yield the frames from the finish on."""
        for name, payload, chunk in self._held:
            is_changed = chunk is not None and self._set_finishes(chunk)
            yield self._encode(name, encode_chunk(chunk) if is_changed else payload)
        self._held.clear()

    def _encode(self, name: bytes, payload: bytes) -> bytes:
        framing = self._traits.framing
        if framing == "sse":
            if b"\n" in payload:
                payload = payload.replace(b"\n", b"\ndata: ")
            data = b"event: %b\ndata: %b\n\n" % (name, payload) if name else b"data: %b\n\n" % payload
            return self._in_line_ends(data)
        if framing == "event_stream":
            headers = {
                ":event-type": name.decode(errors="ignore"),
                ":content-type": "application/json",
                ":message-type": "event",
            }
            return encode_message(headers, payload)
        return payload + b"\n" if framing == "ndjson" else next(self._separators) + payload

    def _in_line_ends(self, data: bytes) -> bytes:
        """Return server-sent events with the line ends of the wire."""
        is_crlf = data.endswith(b"\r\n")
        if is_crlf == (self._traits.line_end == "\r\n"):
            return data
        return data.replace(b"\r\n", b"\n") if is_crlf else data.replace(b"\n", b"\r\n")

    # ------------------------------------------------------------ fields

    def _replace(self, payload: bytes, chunk: Json, models: list[tuple[str, Any]]) -> bytes:
        """Return the payload of a changed chunk.

        If only the model's name is another one, one replacement makes it, also in plain frames that follow: a name with
        its quotes and a colon is within no text of JSON, where quotes are escaped.
        """
        self._plain_change = None
        if len(models) == 1 and self._model is not None and self._traits.framing == "sse":
            ((key, model),) = models
            before = re.search(rb'"%b"\s*:\s*%b' % (key.encode(), re.escape(encode_json(model))), payload)
            if before is not None:
                after = before[0].removesuffix(encode_json(model)) + encode_json(self._model)
                replaced = payload.replace(before[0], after, 1)
                if _decode(replaced) == chunk:
                    self._plain_change = before[0], after
                    return replaced
        return json.dumps(chunk).encode() if _has_constant(payload) else encode_chunk(chunk)

    def _start_calls(self, starts: list[ToolCallStart]) -> Iterator[bytes]:
        """Yield the frames of calls that have started only now: their ids were not known before."""
        for name, chunk in self._unstarted:
            self._change(chunk, starts, [start.call for start in starts])
            self._set_finishes(chunk)
            yield self._encode(name, encode_chunk(chunk))
        self._unstarted.clear()

    def _is_unknown(self, choice: int, call: Json) -> bool:
        """Return True for an object that may begin a call that has not started."""
        if self._places.call_index is None:
            return False
        if raw_id := call.get(self._places.call_id):
            return isinstance(raw_id, str) and (choice, raw_id) not in self._by_raw_id
        return (choice, normalize_index(call.get(self._places.call_index))) not in self._by_index

    def _change(self, chunk: Json, starts: list[ToolCallStart], refs: Sequence[CallRef]) -> bool:
        """Change the fields that the gateway writes itself; return whether any is another one."""
        places, is_changed = self._places, False
        for holder, key in find_places(chunk, places.model) if self._model is not None else ():
            is_changed |= _set(holder, key, self._model)
        for holder, key in find_places(chunk, places.state):
            is_changed |= self._wrap_state(holder, key)
        if places.items:
            is_changed |= self._change_items(chunk)
        item_index = normalize_index(chunk.get(places.item_index))
        for choice, call in self._find_calls(chunk):
            index = normalize_index(call.get(places.call_index)) if places.call_index else item_index
            is_changed |= self._change_call((choice, index), call, starts, refs)
        return is_changed

    def _change_items(self, chunk: Json) -> bool:
        """Give the response and its items ids of the gateway, which keeps them; reasoning carries its own."""
        writer, places = self._writer, self._places
        is_changed = False
        for holder, key in find_places(chunk, places.response_id):
            is_changed |= _set(holder, key, writer.response_id)
        for holder, key in find_places(chunk, places.items):
            if not isinstance(item := holder[key], dict) or not isinstance(raw_id := item.get("id"), str):
                continue
            if item.get("type") == "reasoning":
                item["encrypted_content"] = self._wrap({"value": item.get("encrypted_content"), "id": raw_id})
            item["id"] = self._item_id(raw_id)
            self._items[item["id"]] = item
            is_changed = True
        return is_changed

    def _item_id(self, raw_id: str) -> str:
        written = self._item_ids.get(raw_id)
        if written is None:
            prefix, hexadecimal = raw_id.partition("_")[0], str(self._writer.response_id).rpartition("_")[2]
            written = self._item_ids[raw_id] = f"{prefix[:8]}_{hexadecimal}_{len(self._item_ids)}"
        return written

    def _find_calls(self, chunk: Json) -> Iterator[tuple[int, Json]]:
        """Yield the objects of calls, each with the number of its choice."""
        listed = chunk.get(self._places.choices)
        for position, choice in enumerate(listed) if isinstance(listed, list) else [(0, chunk)]:
            number = choice.get("index", position) if isinstance(choice, dict) and choice is not chunk else 0
            for holder, key in find_places(choice, self._places.calls):
                if _is_one_of(holder[key], self._places.call_types):
                    yield number if isinstance(number, int) else 0, holder[key]

    def _change_call(self, place: Any, call: Json, starts: list[ToolCallStart], refs: Sequence[CallRef]) -> bool:
        """Give the call at an index of a choice its id and its index."""
        id_key, index_key = self._places.call_id, self._places.call_index
        choice, raw_id = place[0], call.get(id_key)
        start = next((each for each in starts if each.choice == choice), None)
        if start is not None and not self._is_of(start, raw_id, place):
            start = None
        ref = self._by_raw_id.get((choice, raw_id)) if isinstance(raw_id, str) else None
        at_index = self._by_index.get(place) if ref is not None and index_key is None else None
        if at_index is not None and self._turn.call(at_index.id).raw_id == raw_id:
            ref = at_index  # one of several calls of this id, of which an item without an index is the first
        if ref is None and self._without_ids:  # one of these has got its id later
            ref = next((each for each in self._without_ids if self._turn.call(each.id).raw_id == raw_id), None)
        if start is not None:
            starts.remove(start)
            ref = start.call
            self._started.add(ref.id)
            self._choices_with_calls.add(choice)
            if isinstance(raw_id, str):
                if index_key is not None or (choice, raw_id) not in self._by_raw_id:
                    self._by_raw_id[choice, raw_id] = ref
            elif index_key is None:
                self._without_ids.append(ref)
        elif ref is None and (index_key is not None or self._without_ids):
            ref = refs[0] if len(refs) == 1 else self._by_index.get(place) if place[1] is not None else None
        if ref is None:
            return False if index_key is None or raw_id is None else call.pop(id_key) is not None
        is_changed = False
        self._by_index[place] = ref
        if index_key is not None:
            is_changed |= _set(call, index_key, ref.index)
        if start is not None or raw_id is not None:
            is_changed |= _set(call, id_key, self._ids.call(ref.id, ref.name))
        return is_changed

    def _is_of(self, start: ToolCallStart, raw_id: Any, place: Any) -> bool:
        """Return True if an entry with this id, at this index of its choice, is that of a call that has started."""
        known = self._turn.call(start.call.id).raw_id
        if isinstance(raw_id, str) and raw_id:
            return known in (None, raw_id)
        return known is None or place not in self._by_index

    def _set_finishes(self, chunk: Json) -> bool:
        """Write the finish as the turn has it, as far as it is known; return whether that is another value."""
        is_changed, table = False, self._places.finish_reasons
        for holder, key in find_places(chunk, self._places.finish):
            value = holder[key]
            if not is_reason(value):
                continue
            choice = normalize_index(holder.get("index", 0))
            _, reason = read_finish_reason(value, table)
            if choice in self._finishes:
                reason = self._finishes[choice]
            elif reason == "stop" and choice in self._choices_with_calls:
                reason = "tool_calls"
            if not isinstance(value, str) or table.get(value) != reason:
                is_changed |= _set(holder, key, self._places.finish_names[reason])
        return is_changed

    def _moves_usage(self, chunk: Json) -> bool:
        """Move the token counts of a chunk without choices to the finish; return whether it was one."""
        if chunk.get(self._places.choices) != []:
            return False
        finishes = [place for place, (_, _, finish) in enumerate(self._held) if finish is not None]
        for place in finishes[-1:]:
            name, _, finish = self._held[place]
            finish["usage"] = chunk.get("usage")
            self._held[place] = (name, encode_chunk(finish), finish)
        return True

    def _wrap_state(self, holder: Json, key: str) -> bool:
        value = holder[key]
        if not isinstance(value, str) or not value or not _is_one_of(holder, self._places.state_types):
            return False
        return _set(holder, key, self._wrap({"value": value}))


def _substance(turn: Turn) -> Any:
    """Return the parts of a response that a client acts on."""
    calls = [[(call.name, call.kind, call.state, call.arguments) for call in choice.calls] for choice in turn.choices]
    texts = [(choice.text, choice.reasoning, choice.refusal) for choice in turn.choices]
    return calls, texts, turn.finish and turn.finish.reason, turn.error


def _marks(places: WirePlaces, *, has_model: bool) -> bytes:
    """Return the pattern of a frame that may have something to change, beside the calls of its events."""
    names = {name for path in (*places.state, *(places.model if has_model else ())) for name in path[-1]}
    texts = [rb'"%b"\s*:\s*"[^"]' % name.encode() for name in sorted(names)]
    texts += [rb'"%b"\s*:' % path[0][0].encode() for path in (*places.items, *places.response_id)]
    if places.call_index is not None:  # those that have not started
        texts.append(rb'"tool_calls"\s*:\s*[\[{]')
    texts += [rb'"%b"\s*:\s*[^n\s]' % name.encode() for name in sorted({path[-1][0] for path in places.finish})]
    return b"|".join(texts)


def _decode(payload: bytes) -> Json | None:
    """Return a frame's object; None if it is none."""
    try:
        chunk = msgspec.json.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            chunk = read_json(payload)
        except (ValueError, RecursionError):
            return None
    return chunk if isinstance(chunk, dict) else None


def _is_one_of(value: Any, types: frozenset[Any] | None) -> bool:
    """Return True for an object, of one of the types if there are any."""
    if not isinstance(value, dict) or types is None:
        return isinstance(value, dict)
    kind = value.get("type")
    return (kind is None or isinstance(kind, str)) and kind in types


def _set(holder: Any, key: Any, value: Any) -> bool:
    """Set a value; return whether it was another one."""
    if isinstance(holder, dict) and key in holder and holder[key] == value:
        return False
    holder[key] = value
    return True
