"""One request to one upstream: from the client's body to the client's bytes.

The order is fixed: the body is read, opaque state that the upstream made is restored, and the request is written for
the upstream. The events of its response get the client's names of tools, then carry the upstream's state in the
client's own fields, and are written in the client's wire.

The upstream is always asked for a stream; a client that asked for none gets one body at the end. This module must not
depend on ASGI.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any
from urllib.parse import quote

import anyio
from msgspec import structs

from streamkit import providers
from streamkit.bridges.gateway.routes import Route, client_provider
from streamkit.bridges.gateway.stored_responses import StoredResponses
from streamkit.bridges.gateway.upstream import Upstream, UpstreamRequest, Watch, feature_headers
from streamkit.calls import StreamError
from streamkit.events import Event, Failed, Reasoning, ReasoningKind, ResponseStarted, UsageReport
from streamkit.history import ToolCallBlock
from streamkit.model_copy import copy_with
from streamkit.providers.body_fields import asks_for_usage
from streamkit.providers.origin import normalize_endpoint
from streamkit.source import Source
from streamkit.source_failure import is_io_failure
from streamkit.stream_reader import event_batches
from streamkit.time_limits import TimeLimits, has_content
from streamkit.turn import Turn

__all__ = ["Attempt"]


class Attempt:
    """One request to one upstream. `parts` is read once.

    Args:
        upstream: the upstream.
        route: the route of the client's request.
        body: the client's decoded body.
        headers: the client's headers, with names in lower case.
        stored: where the response is stored for later requests; None if the client's wire has no references.

    Raises:
        UsageError: the body is no request of the client's wire.

    Attributes:
        client: the provider whose form the response to the client has.
        request: the client's request in neutral form.
        model: the upstream's model.
        turn: the upstream's response.
        writer: the writer of the client's response.
        changes: a sentence for each thing of the request that was changed or left out.
        response_headers: the headers of the upstream's response, once it began.
        watch: returns the response that is read in place of the upstream's; None for the upstream's own.
        has_ended: the last part was yielded.
    """

    def __init__(
        self,
        upstream: Upstream,
        route: Route,
        body: Any,
        headers: Mapping[str, str],
        stored: StoredResponses | None = None,
    ) -> None:
        self._upstream = upstream
        self._client_body = body
        self._stored = stored
        target = providers.get(upstream.provider)
        self.client = client_provider(route.client, target)
        self.changes: list[str] = []
        request = providers.parse_request(
            body, self.client, model=route.model, stream=route.stream, changes=self.changes
        )
        contents = providers.restore_state(request.contents, self.changes)
        self.request = copy_with(request, contents=contents)
        self.model = upstream.model_for(request.settings.model)
        self._body = providers.render_request(
            self.request,
            target,
            stream=True,
            settings={"model": self.model},
            endpoint=upstream.endpoint,
            unsupported="text",
            changes=self.changes,
        )
        self._headers = feature_headers(self.client, target, headers)
        used_ids = [block.id for content in contents for block in content.blocks if isinstance(block, ToolCallBlock)]
        self.turn = Turn(
            target,
            secrets.token_hex(12),  # some wires have no response id, and ids must differ between responses
            endpoint=upstream.endpoint,
            model=self.model,
            used_ids=used_ids,
        )
        self._restorer = providers.CallRestorer(self.request, target)
        endpoint = normalize_endpoint(upstream.endpoint) if upstream.endpoint else None
        origin = {"provider": target.name, "endpoint": endpoint, "requested_model": self.model}
        self._carrier = providers.StateCarrier(self.client, origin)
        # Models of OpenAI stream summaries only, so clients of Responses show no other reasoning: LiteLLM, LangChain
        # and agno read ``response.reasoning_summary_text.delta`` and not ``response.reasoning_text.delta``.
        kind = self.client.traits.reasoning_kind
        self._shown_kind = None if kind == "text" or self.client.package == target.package else kind
        self.writer = self.client.writer(
            # Upstreams may repeat ids, and a client refers to stored responses by them.
            response_id=None if stored is None else f"resp_{secrets.token_hex(24)}",
            model=request.settings.model,
            stream=request.stream,
            framing="json_array" if request.stream and route.as_array else None,
            usage_chunk=asks_for_usage(body),
        )
        self.response_headers: Mapping[str, str] = {}
        self.watch: Watch | None = None
        self.has_ended = False
        self._has_started = False

    @property
    def error(self) -> StreamError | None:
        """The error with which the response ends, None if it is complete or not at its end yet."""
        return self.writer.error

    async def parts(self, *, waits_for_content: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield the bytes for the client as they become known.

        The first ones come no sooner than the response has begun without an error. If it fails before, nothing is
        yielded, and ``error`` is set.

        Args:
            waits_for_content: a response begins with its first content, because another upstream can be asked until
                then; else with its first event, so that a client learns at once that it has begun.
        """
        data, has_begun = b"", False
        async with AsyncExitStack() as stack:
            source = await self._open(stack)
            batches = await stack.enter_async_context(aclosing(event_batches(self.turn, source)))
            async for batch in batches:
                events = [*batch, *self.turn.close()] if self.turn.done else batch
                if written := self._write(events):
                    data += written
                    has_begun = has_begun or has_content(events) or (not waits_for_content and self.turn.error is None)
                if self.turn.done:
                    break  # the client gets the end before the upstream's connection is read to the end of the body
                if data and has_begun:
                    yield data
                    data = b""
            data += self.writer.close()
            is_complete = self.turn.error is None and self.error is None  # an error that is not read is logged
            if is_complete and self._stored is not None and self.writer.response_id is not None:
                self._stored.add(self.writer.response_id, self._client_body, self.writer.items)
            if has_begun or is_complete:
                self.has_ended = True
                yield data

    def _write(self, batch: Sequence[Event]) -> bytes:
        events = batch
        if not self._has_started:
            self._has_started = any(isinstance(event, ResponseStarted) for event in events)
            # The tokens of the prompt are in the start of Anthropic's messages, and LangChain.js reads them only there.
            events = sorted(events, key=lambda event: not isinstance(event, UsageReport))
        if self.turn.has_error:
            events = [self._clean(event) for event in events]
        if self._restorer.is_needed:
            events = [restored for event in events for restored in self._restorer.restore(event)]
        events = self._carrier.carry(events)
        if (kind := self._shown_kind) is not None:
            events = [_with_kind(event, kind) for event in events]
        return b"".join([self.writer.write(event) for event in events])

    def _clean(self, event: Event) -> Event:
        if not isinstance(event, Failed):
            return event
        return structs.replace(
            event, error=structs.replace(event.error, message=self._upstream.clean(event.error.message))
        )

    async def _open(self, stack: AsyncExitStack) -> Source:
        """Return the upstream's response; one without input, but with an error, if it could not be opened."""
        endpoint = self.turn.provider.traits.endpoint
        request = UpstreamRequest(
            path=endpoint.path.format(model=quote(self.model, safe="")),
            headers={**endpoint.headers, **self._headers},
            body=self._body,
            model=self.model,
        )
        seconds, failed = self._upstream.first_event_timeout, Source(self.turn, ())
        try:
            if seconds is None:
                return Source(self.turn, await self._ask(request, stack))
            limits, started = TimeLimits(first_event=seconds), anyio.current_time()
            with anyio.move_on_after(seconds):
                return Source(self.turn, await self._ask(request, stack), limits=limits, started=started)
            failed.error = limits.error(anyio.current_time(), has_first_event=False)
        except Exception as error:
            if not is_io_failure(error):
                raise
            failed.report(error)
        return failed

    async def _ask(self, request: UpstreamRequest, stack: AsyncExitStack) -> Any:
        asked = self._upstream.ask(request)
        response = await stack.enter_async_context(asked if self.watch is None else self.watch(request, asked))
        self.response_headers = getattr(response, "headers", None) or {}
        return response


def _with_kind(event: Event, kind: ReasoningKind) -> Event:
    """Return a delta of reasoning text as one of another kind; any other event as it is."""
    is_text = isinstance(event, Reasoning) and event.kind == "text"
    return structs.replace(event, kind=kind) if is_text else event
