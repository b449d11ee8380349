"""One request to one upstream: from the client's body to the client's bytes.

The order is fixed: the body is read, opaque state that the upstream made is restored, and the request is written for
the upstream. The events of its response get the client's names of tools, then carry the upstream's state in the
client's own fields, and are written in the client's wire.

The upstream is always asked for a stream; a client that asked for none gets one body at the end. This module must not
depend on ASGI.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote

from msgspec import structs

from streamkit import providers
from streamkit.bridges.gateway.routes import Route, client_provider
from streamkit.calls import StreamError
from streamkit.errors import UsageError
from streamkit.events import Event, Failed, ResponseStarted, UsageReport, Warned
from streamkit.history import ToolCallBlock
from streamkit.providers.origin import normalize_endpoint
from streamkit.providers.provider import Provider
from streamkit.redaction import MASK
from streamkit.source import Source
from streamkit.source_failure import is_io_failure
from streamkit.stream_reader import event_batches
from streamkit.turn import Turn

__all__ = ["Ask", "Attempt", "Upstream", "UpstreamRequest"]

#: The model of ``Upstream.models`` for every name that is not listed.
ANY_MODEL = "*"

_WITHOUT_CONTENT = (ResponseStarted, UsageReport, Failed, Warned)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRequest:
    """A request for ``Upstream.ask``.

    Attributes:
        path: the path after the base URL, with the query.
        headers: the headers of the provider except its key, and those of the client that select features of the
            provider.
        body: the JSON body.
        model: the requested model.
    """

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    model: str


#: Opens the response to a request, such as ``http.stream("POST", ...)`` of httpx.
Ask: TypeAlias = Callable[[UpstreamRequest], AbstractAsyncContextManager[Any]]
#: Returns the response to a request, or one that copies the input that is read of it.
Watch: TypeAlias = Callable[[UpstreamRequest, AbstractAsyncContextManager[Any]], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """A provider that requests are sent to.

    Attributes:
        provider: its name, or the provider object.
        ask: returns an async context manager over the response: anything that ``read`` accepts, such as a streamed
            httpx response, whose status and headers count. Transport errors that it raises become errors for the
            client.
        endpoint: the address of the server, to which opaque state belongs; None if there is only one.
        models: the upstream's model by the client's name of one; ``"*"`` for all other names. A name that is not
            listed is sent as it is.
        secrets: texts that no client and no log may get, such as the key.
    """

    provider: str | Provider
    ask: Ask = field(repr=False)
    endpoint: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[str] = field(default=(), repr=False)

    def model_for(self, model: str | None) -> str:
        """Return the upstream's model for a client's name of one.

        Raises:
            UsageError: there is no name, and no model for every name.
        """
        found = self.models.get(model or "", self.models.get(ANY_MODEL, model))
        if not found:
            raise UsageError("the request names no model: set the field 'model'")
        return found

    def clean(self, text: str) -> str:
        """Return a text without secrets."""
        for secret in self.secrets:
            if secret:
                text = text.replace(secret, MASK)
        return text


class Attempt:
    """One request to one upstream. `parts` is read once.

    Args:
        upstream: the upstream.
        route: the route of the client's request.
        body: the client's decoded body.
        headers: the client's headers, with names in lower case.

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
    """

    def __init__(self, upstream: Upstream, route: Route, body: Any, headers: Mapping[str, str]) -> None:
        self._upstream = upstream
        target = providers.get(upstream.provider)
        self.client = client_provider(route.client, target)
        self.changes: list[str] = []
        request = providers.parse_request(
            body, self.client, model=route.model, stream=route.stream, changes=self.changes
        )
        contents = providers.restore_state(request.contents, self.changes)
        self.request = request.model_copy(update={"contents": contents})
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
        self._headers = _feature_headers(self.client, target, headers)
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
        self.writer = self.client.writer(
            model=request.settings.model,
            stream=request.stream,
            framing="json_array" if request.stream and route.as_array else None,
        )
        self.response_headers: Mapping[str, str] = {}
        self.watch: Watch | None = None

    @property
    def error(self) -> StreamError | None:
        """The error with which the response ends, None if it is complete or not at its end yet."""
        return self.writer.error

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes for the client as they become known.

        The first ones come no sooner than the response has begun without an error. If it fails before, nothing is
        yielded, and ``error`` is set.
        """
        has_begun = False
        async with AsyncExitStack() as stack:
            source = await self._open(stack)
            batches = await stack.enter_async_context(aclosing(event_batches(self.turn, source)))
            async for batch in batches:
                data = self._write(batch)
                if data and not has_begun:
                    failed = self.turn.error is not None
                    has_begun = not failed or any(not isinstance(event, _WITHOUT_CONTENT) for event in batch)
                if data and has_begun:
                    yield data
        end = self.writer.close()
        is_complete = self.turn.error is None and self.error is None  # an error of a turn that is not read is logged
        if has_begun or is_complete:
            yield end

    def _write(self, batch: Sequence[Event]) -> bytes:
        events = list(batch)
        if any(isinstance(event, Failed) for event in events):
            events = [self._clean(event) for event in events]
        if self._restorer.is_needed:
            events = [restored for event in events for restored in self._restorer.restore(event)]
        return b"".join(map(self.writer.write, self._carrier.carry(events)))

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
        try:
            opening = self._upstream.ask(request)
            response = await stack.enter_async_context(opening if self.watch is None else self.watch(request, opening))
        except Exception as error:
            if not is_io_failure(error):
                raise
            failed = Source(self.turn, ())
            failed.report(error)
            return failed
        self.response_headers = getattr(response, "headers", None) or {}
        return Source(self.turn, response)


def _feature_headers(client: Provider, target: Provider, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the client's headers that select features of its wire, if the target has the same wire."""
    if client.package != target.package:
        return {}
    return {name: headers[name] for name in target.traits.endpoint.feature_headers if name in headers}
