"""One request to one upstream: from the client's body to the client's bytes.

The order is fixed: the body is read, opaque state that the upstream made is found and restored, and the request is
written for the upstream. The events of its response get the client's names of tools, then carry the upstream's state in
the client's own fields, and are written in the client's wire (`Conversion`).

The upstream is always asked for a stream; a client that asked for none gets one body at the end. This module must not
depend on ASGI.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import anyio
from msgspec import structs

from streamkit import providers
from streamkit.errors import UsageError
from streamkit.events import Event, Failed, Reasoning, ReasoningKind, ResponseStarted, TurnEvent, UsageReport
from streamkit.gateway.bodies import LARGE, run_in_thread
from streamkit.gateway.routes import Route, client_provider
from streamkit.gateway.stores.store import OwnEntries, StoreUnavailable
from streamkit.gateway.stores.stored_responses import add_response, encode_items, refuse_references_to_openai
from streamkit.gateway.translation.call_restorer import CallRestorer
from streamkit.gateway.translation.opaque_state import StateCarrier
from streamkit.gateway.translation.state_restorer import restore_state
from streamkit.gateway.translation.state_text import MOST_STATES, StateSettings, UpstreamState, wrap_state
from streamkit.gateway.translation.stored_state import AlikeNames, Place, keeps_state, needed_names
from streamkit.gateway.upstream import (
    NO_CONNECTION,
    Exchange,
    Upstream,
    UpstreamRequest,
    Watch,
    feature_headers,
    is_header_value,
    limit_headers,
    open_response,
)
from streamkit.history import ToolCallBlock
from streamkit.providers.provider import Provider
from streamkit.providers.requests.body_fields import asks_for_usage
from streamkit.providers.requests.request import Request
from streamkit.providers.writing.encoding import CONTENT_TYPES
from streamkit.providers.writing.wire_output import LONGEST_REPEATED
from streamkit.providers.writing.writer import Writer
from streamkit.reading.source import Source, headers_of
from streamkit.reading.source_failure import find_failed_response, is_io_failure
from streamkit.reading.stream_reader import TurnReading
from streamkit.reading.time_limits import TimeLimits, has_content
from streamkit.reading.turn import Turn
from streamkit.values.json_data import copy_with
from streamkit.values.request_changes import ChangeList, LeftOut, RequestChange

if TYPE_CHECKING:
    from streamkit.gateway.translation.recorded_frames import RecordedProvider
    from streamkit.gateway.translation.wire_relay import WireRelay

__all__ = ["Attempt", "Conversion"]

_LONGEST = 64 * 1024 * 1024  # bytes of a response that are kept until its end; more are refused as they come


class Attempt:
    """One request to one upstream. `find_state`, then `render`, then `parts`, which is read once.

    Args:
        upstream: the upstream.
        model: its name of the model.
        route: the route of the client's request.
        body: the client's decoded body.
        headers: the client's headers, with names in lower case.
        state: the keys and the limit of carried state.
        entries: what the gateway stores for the client.

    Raises:
        UsageError: the body is no request of the client's wire, or refers to what the upstream cannot have.

    Attributes:
        target: the upstream's provider.
        client: the provider whose form the response to the client has.
        request: the client's request in neutral form.
        model: the upstream's model.
        changes: a sentence for each thing of the request that was changed or left out, with its class.
        response_headers: the headers of the upstream's response, once it began.
        conversion: the conversion of the response; None until it was prepared.
        watch: returns the response that is read in place of the upstream's; None for the upstream's own.
        defect: what ``Upstream.ask``, or the reading of what it returned, has raised about a wrong use of this package:
            no error of the client's request. None if there is none.
        has_ended: the last part was yielded.
        has_large_body: what the request's body takes is done in worker threads.
        keeps_state: the gateway keeps the state of calls for the client.
    """

    def __init__(
        self,
        upstream: Upstream,
        model: str,
        route: Route,
        body: Any,
        headers: Mapping[str, str],
        state: StateSettings,
        entries: OwnEntries,
    ) -> None:
        self._upstream = upstream
        self._client_body = body
        self._state = state
        self._entries = entries
        self._has_references = route.client == "openai_responses"
        self.has_large_body: bool = False
        self._route = route
        target = providers.get(upstream.provider)
        self.target: Provider = target
        self.client: Provider = client_provider(route, target)
        self.changes: ChangeList = ChangeList()
        if self._has_references and target.package != self.client.package:
            refuse_references_to_openai(body)
        request = providers.parse_request(
            body, self.client, model=route.model, stream=route.stream, changes=self.changes
        )
        self.request: Request = request
        self.model: str = model
        # A custom tool for which the dialect has no form is a function there, and its calls are translated.
        self._is_relayed = self.client.name == target.name and (
            target.traits.custom_calls or not any(getattr(tool, "kind", None) == "custom" for tool in request.tools)
        )
        self.keeps_state: bool = keeps_state(self.client, target)
        # Clients of wires without any field for state have no ids either, or may have none.
        self._has_unique_ids = self.client.package != target.package  # Kimi's ids repeat, and are written in its form
        is_alike = self.keeps_state and (not self._has_unique_ids or self.client.traits.reasoning_state is None)
        self._alike = AlikeNames() if is_alike else None
        self._body: dict[str, Any] = {}
        self._headers = feature_headers(target, headers) if self.client.package == target.package else {}
        self.conversion: Conversion | None = None
        self.response_headers: Mapping[str, str] = {}
        self.watch: Watch | None = None
        self.defect: UsageError | None = None
        self.has_ended: bool = False

    async def find_state(self) -> Mapping[Place, str]:
        """Return the state that the gateway has kept of calls that the client sends back without it, by their place."""
        needed = needed_names(self.request.contents, self._alike, has_gateway_ids=self._has_unique_ids)
        latest = [*needed.items()][-MOST_STATES:]
        names = [name for _, own in latest for name in own]
        if not names:
            return {}
        try:
            stored = await self._entries.get("call", names)
        except StoreUnavailable as problem:
            self.changes.append(LeftOut(f"opaque state of earlier responses was left out: {problem}"))
            return {}
        found = {place: stored[name] for place, own in latest for name in reversed(own) if name in stored}
        if unknown := len(needed) - len(found):
            self.changes.append(
                LeftOut(
                    f"opaque state of {unknown} calls is not known: the client has not sent it, and this gateway has"
                    " made others, or has not kept it as long"
                )
            )
        return {place: state.decode() for place, state in found.items() if state}

    def render(self, state: Mapping[Place, str]) -> None:
        """Write the request for the upstream, with the state that the client sends and that the gateway has kept.

        Raises:
            UsageError: the upstream cannot have it.
        """
        request = self.request
        left_out: list[RequestChange] = []
        contents = restore_state(request.contents, self._state, left_out, state)
        if not all(map(is_, contents, request.contents)):
            self.request = copy_with(request, contents=contents)
        render = partial(
            providers.render_request,
            provider=self.target,
            stream=True,
            endpoint=self._upstream.endpoint,
            unsupported="text",
        )
        if self._is_relayed:
            from streamkit.gateway.translation.passed_request import pass_request

            asked = (self._client_body, request, self.request, render, self.model, self.target, self.changes)
            self._body = pass_request(*asked)
            if self._route.stream is None:
                self._body["stream"] = True
        else:
            settings = None if self.model == request.settings.model else {"model": self.model}
            self._body = render(self.request, settings=settings, changes=self.changes)
        self.changes += left_out
        if self.has_large_body:
            self.prepare()  # which takes as long

    def prepare(self) -> Conversion:
        """Return the conversion of the response, made when it is first needed: the request does not wait for it."""
        if self.conversion is not None:
            return self.conversion
        client, target, request, usage_chunk = self.client, self.target, self.request, asks_for_usage(self._client_body)
        writer = client.writer(
            # Upstreams may repeat ids, and a client refers to stored responses by them.
            response_id=f"resp_{secrets.token_hex(24)}" if self._has_references else None,
            model=request.settings.model,
            stream=request.stream,
            framing="json_array" if request.stream and self._route.as_array else None,
            usage_chunk=usage_chunk,
        )
        # Also of a response that fails before it starts.
        writer.has_own_errors = client.traits.is_from_provider({"provider": target.name})
        recorded: RecordedProvider | None = None
        if self._is_relayed and writer.places is not None:
            from streamkit.gateway.translation.recorded_frames import RecordedProvider
            from streamkit.gateway.translation.wire_relay import WireRelay

            recorded = RecordedProvider(target)
        turn = Turn(
            recorded or target,
            secrets.token_hex(12),  # some wires have no response id, and ids must differ between responses
            endpoint=self._upstream.endpoint,
            model=self.model,
            used_ids=[
                block.id for content in request.contents for block in content.blocks if isinstance(block, ToolCallBlock)
            ],
        )
        # Models of OpenAI stream summaries only, so clients of Responses show no other reasoning: LiteLLM, LangChain
        # and agno read ``response.reasoning_summary_text.delta`` and not ``response.reasoning_text.delta``.
        kind = client.traits.reasoning_kind
        # The client asked for this very model, so it gets the version that answers. A name of the gateway's is kept.
        shows_model = client.package == target.package and self.model == request.settings.model
        self.conversion = conversion = Conversion(
            turn,
            writer,
            CallRestorer(request, target),
            StateCarrier(client, turn.origin, self._state, self.keeps_state),
            self._upstream.clean,
            shown_kind=None if kind == "text" or client.package == target.package else kind,
            shows_model=shows_model,
        )
        if recorded is not None:
            shown, key = None if shows_model else request.settings.model, self._state.keys[0]

            def wrap(value: dict[str, Any]) -> str:
                return wrap_state(UpstreamState(turn.origin, "value", value), key)

            conversion.relay = WireRelay(
                *(turn, recorded, writer, wrap), model=shown, usage_chunk=usage_chunk, is_whole=not request.stream
            )
        return conversion

    async def parts(self, *, waits_for_content: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield the bytes for the client as they become known.

        The first ones come no sooner than the response has begun without an error. If it fails before, nothing is
        yielded, and the writer has its error.

        Args:
            waits_for_content: a response begins with its first content, because another upstream can be asked until
                then; else with its first event, so that a client learns at once that it has begun.
        """
        data, has_begun = b"", False
        async with AsyncExitStack() as stack:
            source = await self._open(stack)
            conversion = self.prepare()
            turn, writer, write = conversion.turn, conversion.writer, conversion.write
            length, reading = self.response_headers.get("content-length", ""), TurnReading(turn, source)
            is_large = length.isdecimal() and len(length) < 10 and LARGE < int(length) <= _LONGEST
            if is_large:
                conversion.relay = None
            try:
                async with aclosing(_read_at_once(reading) if is_large else reading.batches()) as batches:
                    async for batch in batches:
                        is_done = turn.done
                        events = [*batch, *turn.close()] if is_done else batch
                        made = await run_in_thread(write, events) if is_large else write(events, reading.last_input)
                        if made:
                            data += made
                            has_begun = (
                                has_begun or (not waits_for_content and turn.error is None) or has_content(events)
                            )
                        if is_done:
                            break  # the client gets the end before the end of the upstream's body is read
                        if data and has_begun:
                            yield data
                            data = b""
                    data += await run_in_thread(writer.close) if is_large else (conversion.relay or writer).close()
                    is_complete = turn.error is None and writer.error is None  # an error that is not read is logged
                    if is_complete and (conversion.carrier.kept or self._has_references):
                        await self._store(conversion, is_large)
                    if has_begun or is_complete:
                        self.has_ended = True
                        yield data
            except UsageError as error:
                self.defect = error
                raise

    def describe_heartbeat(self, exchange: Exchange) -> tuple[Mapping[str, str], bytes]:
        """Return the headers of the response and the heartbeat of the client's wire, ``b""`` if it has none."""
        traits = self.prepare().writer.traits
        is_sent = self.request.stream and traits.framing == "sse"
        return (self.client_headers(exchange), traits.heartbeat) if is_sent else ({}, b"")

    def client_headers(self, exchange: Exchange) -> dict[str, str]:
        """Return the headers of the client's response, which begins."""
        exchange.status = 200
        framing = self.prepare().writer.traits.framing if self.request.stream else "json_array"
        return {"content-type": CONTENT_TYPES[framing], "cache-control": "no-cache", **self.upstream_headers(exchange)}

    def upstream_headers(self, exchange: Exchange) -> dict[str, str]:
        """Return the headers about the upstream: its rate limits and the id, else one of the gateway."""
        given = self.response_headers
        value = given.get(self.target.traits.endpoint.request_id_header)
        if value is not None and is_header_value(value):
            exchange.request_id = value
        limits = limit_headers(self.client, self.target, given)
        request_id = {self.client.traits.endpoint.request_id_header: exchange.request_id}
        return {**limits, **request_id, "x-streamkit-changes": str(len(self.changes))}

    async def _store(self, conversion: Conversion, is_large: bool) -> None:
        """Store a complete response for later requests of the client, before the client has its end."""
        writer = conversion.writer
        states: dict[str, bytes] = {}
        for call, state in conversion.carrier.kept:
            kept = b"" if state is None else wrap_state(state, self._state.keys[0]).encode()
            if self._has_unique_ids:
                states[writer.written_id(call.id) or call.id] = kept
            if self._alike is not None:
                states[self._alike.of(call.name, call.arguments)] = kept
        if states:
            await self._entries.put("call", states)
        if self._has_references and writer.response_id is not None:
            encode, output = partial(encode_items, self._client_body), writer.items
            items = await run_in_thread(encode, output) if is_large or self.has_large_body else encode(output)
            if items is not None:
                await add_response(self._entries, writer.response_id, items, output)

    async def _open(self, stack: AsyncExitStack) -> Source:
        """Return the upstream's response; one without input, but with an error, if it could not be opened."""
        endpoint = self.target.traits.endpoint
        request = UpstreamRequest(
            path=endpoint.path.format(model=quote(self.model, safe="")),
            headers={**endpoint.headers, **self._headers},
            body=self._body,
            model=self.model,
        )
        seconds = self._upstream.first_event_timeout
        limits = None if seconds is None else TimeLimits(first_event=seconds)
        started = None if seconds is None else anyio.current_time()
        # Without a limit no cancel scope is opened, which costs more than the rest of this method.
        limited = nullcontext() if seconds is None else anyio.move_on_after(seconds)
        try:
            with cast("AbstractContextManager[object, bool]", limited):  # True at the limit
                try:
                    opened = open_response(self._upstream, request)
                    if self.watch is not None:
                        opened = self.watch(request, opened, self.request, self.prepare().turn)
                    response = await opened.__aenter__()
                except UsageError as error:
                    self.defect = error
                    raise
                stack.push_async_exit(partial(_close, opened))
                self.response_headers = headers_of(response)
                return Source(self.prepare().turn, response, limits=limits, started=started)
            failed = Source(self.prepare().turn, ())
            if limits is not None:  # else nothing ends the wait
                failed.error = limits.error(anyio.current_time(), has_first_event=False)
        except Exception as error:
            if not is_io_failure(error):
                raise
            if (rejection := find_failed_response(error)) is not None:
                self.response_headers = {name.lower(): value for name, value in rejection.headers.items()}
            failed = Source(self.prepare().turn, ())
            failed.report(error)
        return failed


async def _read_at_once(reading: TurnReading) -> AsyncGenerator[list[TurnEvent], None]:
    """Yield the events of a response that has a length, and so is no stream: in one list, made in a worker thread."""
    turn, parts, size = reading.turn, [], 0
    try:
        iterator, next_input, _ = reading.open()
        try:
            while size <= _LONGEST:  # decompressed, it may be longer than its length
                parts.append(next(iterator) if next_input is None else await next_input())
                size += len(parts[-1]) if isinstance(parts[-1], bytes) else 0
        except Exception as error:  # also the end
            reading.stop(error)
        events = await run_in_thread(lambda: [event for part in parts for event in turn.feed(part)])
        yield [*events, *reading.end()]
    finally:
        await reading.aclose()


async def _close(opened: AbstractAsyncContextManager[Any], *failure: Any) -> bool | None:
    """Close an upstream's response. A connection that fails at that changes nothing: the response was read, or left."""
    try:
        return await opened.__aexit__(*failure)
    except Exception as error:
        is_canceled = isinstance(failure[1], anyio.get_cancelled_exc_class())  # by a task group of ``ask``, for example
        if is_canceled or error is failure[1] or not is_io_failure(error):
            raise
        return False


@dataclass
class Conversion:
    """The conversion of one response.

    Attributes:
        turn: the upstream's response.
        writer: the writer of the client's response.
        restorer: gives calls the client's names.
        carrier: puts the upstream's state into the client's fields.
        clean: returns a text without secrets.
        shown_kind: the kind of reasoning that the client shows; None for any.
        shows_model: the client gets the upstream's name of the model.
        relay: passes the frames of an upstream of the client's dialect on; None for others.
        has_started: the upstream has named the response.
    """

    turn: Turn
    writer: Writer
    restorer: CallRestorer
    carrier: StateCarrier
    clean: Callable[[str], str]
    shown_kind: ReasoningKind | None
    shows_model: bool
    relay: WireRelay | None = None
    has_started: bool = False

    def write(self, batch: Sequence[Event], data: Any = None) -> bytes:
        """Return the client's bytes for some events of the upstream's response, and for the input that has them."""
        events = [self._clean(event) for event in batch] if self.turn.has_error else batch
        if (relay := self.relay) is not None:
            passed, rest = relay.relay(events, data)
            if self.carrier.keeps_calls:
                written = set(map(id, rest))  # a batch may have thousands of events
                self.carrier.carry([event for event in events if id(event) not in written])
            before, relay.passed_events = relay.passed_events, ()
            _ = self._write(before) if before else b""  # the client has their frames
            return passed + self._write(rest) if rest else passed
        return self._write(events)

    def _write(self, batch: Sequence[Event]) -> bytes:
        events = batch
        if not self.has_started:
            # The tokens of the prompt are in the start of Anthropic's messages, and LangChain.js reads them only there.
            first = next((event for event in batch if isinstance(event, UsageReport)), None)
            started = next((event for event in batch if isinstance(event, ResponseStarted)), None)
            if first is not None:
                events = [first, *(event for event in batch if event is not first)]
            if started is not None:
                self.has_started = True
                if self.shows_model and started.model is not None:
                    self.writer.model = started.model[:LONGEST_REPEATED]
        if self.restorer.is_needed:
            events = [restored for event in events for restored in self.restorer.restore(event)]
        events = self.carrier.carry(events)
        if (kind := self.shown_kind) is not None:
            events = [
                structs.replace(event, kind=kind) if isinstance(event, Reasoning) and event.kind == "text" else event
                for event in events
            ]
        if len(events) == 1:
            return self.writer.write(events[0])
        return b"".join(map(self.writer.write, events))

    def _clean(self, event: Event) -> Event:
        if not isinstance(event, Failed):
            return event
        error, clean = event.error, self.clean
        message, raw = clean(error.message), _clean_data(error.raw, clean)
        if error.kind == "transport_error":  # its text, which the log has, names the host, the port and the client
            message, raw = NO_CONNECTION, None
        return structs.replace(event, error=structs.replace(error, message=message, raw=raw))


def _clean_data(value: Any, clean: Callable[[str], str]) -> Any:
    """Return an upstream's error object without secrets."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {name: _clean_data(each, clean) for name, each in value.items()}
    return [_clean_data(each, clean) for each in value] if isinstance(value, list) else value
