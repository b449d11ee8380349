"""The response of an upstream as the client's bytes.

Its events get the client's names of tools, then carry the upstream's state in the client's own fields, and are written
in the client's wire. This module must not depend on ASGI.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from streamkit.events import Event, Failed, Reasoning, ReasoningKind, ResponseStarted, UsageReport
from streamkit.gateway.translation.call_restorer import CallRestorer
from streamkit.gateway.translation.state_carrier import StateCarrier
from streamkit.gateway.upstream import Upstream
from streamkit.history import ToolCallBlock
from streamkit.providers.provider import Framing, Provider
from streamkit.providers.requests.request import Request
from streamkit.reading.turn import Turn

__all__ = ["Conversion"]


class Conversion:
    """The conversion of one response.

    Args:
        upstream: the upstream.
        target: its provider.
        client: the provider whose form the response to the client has.
        request: the client's request.
        model: the upstream's model.
        has_new_id: the response gets an id of its own, by which later requests may refer to it.
        framing: another framing of the client's stream than its usual one.
        usage_chunk: whether the token counts may have a chunk without choices.

    Attributes:
        turn: the upstream's response.
        writer: the writer of the client's response.
    """

    __slots__ = ("_carrier", "_has_started", "_restorer", "_shown_kind", "_shows_model", "_upstream", "turn", "writer")

    def __init__(
        self,
        upstream: Upstream,
        target: Provider,
        client: Provider,
        request: Request,
        model: str,
        *,
        has_new_id: bool,
        framing: Framing | None,
        usage_chunk: bool,
    ) -> None:
        self._upstream = upstream
        used_ids = [
            block.id for content in request.contents for block in content.blocks if isinstance(block, ToolCallBlock)
        ]
        self.turn = Turn(
            target,
            secrets.token_hex(12),  # some wires have no response id, and ids must differ between responses
            endpoint=upstream.endpoint,
            model=model,
            used_ids=used_ids,
        )
        self._restorer = CallRestorer(request, target)
        self._carrier = StateCarrier(client, self.turn.origin)
        # Models of OpenAI stream summaries only, so clients of Responses show no other reasoning: LiteLLM, LangChain
        # and agno read ``response.reasoning_summary_text.delta`` and not ``response.reasoning_text.delta``.
        kind = client.traits.reasoning_kind
        self._shown_kind = None if kind == "text" or client.package == target.package else kind
        self.writer = client.writer(
            # Upstreams may repeat ids, and a client refers to stored responses by them.
            response_id=f"resp_{secrets.token_hex(24)}" if has_new_id else None,
            model=request.settings.model,
            stream=request.stream,
            framing=framing,
            usage_chunk=usage_chunk,
        )
        # The client asked for this very model, so it gets the version that answers. A name of the gateway's is kept.
        self._shows_model = client.package == target.package and model == request.settings.model
        # Also of a response that fails before it starts.
        self.writer.is_same_wire = client.traits.is_from_provider({"provider": target.name})
        self._has_started = False

    def write(self, batch: Sequence[Event]) -> bytes:
        """Return the client's bytes for some events of the upstream's response."""
        events = batch
        if not self._has_started:
            events = self._start(batch)
        if self.turn.has_error:
            events = [self._clean(event) for event in events]
        if self._restorer.is_needed:
            events = [restored for event in events for restored in self._restorer.restore(event)]
        events = self._carrier.carry(events)
        if (kind := self._shown_kind) is not None:
            events = [_with_kind(event, kind) for event in events]
        if len(events) == 1:
            return self.writer.write(events[0])
        return b"".join([self.writer.write(event) for event in events])

    def _start(self, batch: Sequence[Event]) -> Sequence[Event]:
        """Return the first events, with the first report of tokens before the start of the response."""
        # The tokens of the prompt are in the start of Anthropic's messages, and LangChain.js reads them only there.
        first: list[Event] = []
        others: list[Event] = []
        for event in batch:
            if isinstance(event, UsageReport) and not first:
                first.append(event)
                continue
            others.append(event)
            if isinstance(event, ResponseStarted) and not self._has_started:
                self._has_started = True
                if self._shows_model and event.model is not None:
                    self.writer.model = event.model
        return [*first, *others]

    def _clean(self, event: Event) -> Event:
        if not isinstance(event, Failed):
            return event
        error, clean = event.error, self._upstream.clean
        return structs.replace(
            event, error=structs.replace(error, message=clean(error.message), raw=_clean_data(error.raw, clean))
        )


def _clean_data(value: Any, clean: Callable[[str], str]) -> Any:
    """Return an upstream's error object without secrets."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {name: _clean_data(each, clean) for name, each in value.items()}
    return [_clean_data(each, clean) for each in value] if isinstance(value, list) else value


def _with_kind(event: Event, kind: ReasoningKind) -> Event:
    """Return a delta of reasoning text as one of another kind; any other event as it is."""
    is_text = isinstance(event, Reasoning) and event.kind == "text"
    return structs.replace(event, kind=kind) if is_text else event
