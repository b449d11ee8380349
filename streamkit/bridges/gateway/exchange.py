"""``Exchange``: the description of one request and its response, for a log. It must not depend on ASGI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamkit.calls import Usage

__all__ = ["Exchange"]


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request and its response, for a log. It has no key and no content of the conversation.

    Attributes:
        method: the HTTP method.
        path: the path, without the query.
        client: the name of the client's wire.
        request_id: the id that the client got.
        status: the HTTP status; 0 if the client disconnected before one was sent.
        provider: the name of the upstream's provider; None if none was asked.
        model: the client's name of the model.
        upstream_model: the upstream's.
        calls: the number of tool calls in the response.
        usage: the tokens of the response, if they are known.
        error: what failed; None if nothing did.
        disconnected: the client disconnected before the end.
        changes: a sentence for each thing of the request or the response that was changed or left out.
        seconds: the time from the request to the end of the response.
    """

    method: str
    path: str
    client: str
    request_id: str
    status: int = 0
    provider: str | None = None
    model: str | None = None
    upstream_model: str | None = None
    calls: int = 0
    usage: Usage | None = None
    error: str | None = None
    disconnected: bool = False
    changes: Sequence[str] = ()
    seconds: float = 0.0
