"""A gateway: clients of one wire on the models of another, as an ASGI application.

``Gateway`` is the application. It reads a client's request (Anthropic, Chat Completions, Responses, Gemini, Bedrock,
Ollama, Cohere), writes it for an upstream, and writes the events of the response as the client's own stream, live. It
speaks no HTTP to the upstream itself: ``Upstream.ask`` opens the response. ``streamkit gateway`` is the command.

1. `routes`: the wire and the action of a path; `web_pages`: whose requests are refused.
2. `upstream`: what is asked.
3. `attempt`: one request to one upstream, from the client's body to the client's bytes; `conversion`: of its response.
4. `stored_responses`, `token_counts`, `bodies`: what the wires have beside a single request.
5. `replies`: complete responses: errors in the client's wire, model lists.
6. `client_stream`: a streamed response, and heartbeats while the upstream is silent; `watched_service`: the end of a
   service whose client disconnects.
7. `exchange`, `observer`: the description of one request and its response; the interface of their observer.
8. `application`: the ASGI application: bodies, limits, fallbacks, clients that disconnect.

No header of a client is sent to an upstream except those that select features of the same wire, so no key of a client
leaves the gateway; and no message for a client or a log contains a text of ``Upstream.secrets``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamkit.gateway.application import Gateway
    from streamkit.gateway.observer import Exchange, Observer
    from streamkit.gateway.service import GatewayLimits
    from streamkit.gateway.upstream import Ask, Upstream, UpstreamRequest

__all__ = ["Ask", "Exchange", "Gateway", "GatewayLimits", "Observer", "Upstream", "UpstreamRequest"]

_MODULES = {  # loaded on first use: the tap, which is in this package, needs no extra
    "Ask": "upstream",
    "Exchange": "observer",
    "Gateway": "application",
    "GatewayLimits": "service",
    "Observer": "observer",
    "Upstream": "upstream",
    "UpstreamRequest": "upstream",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"streamkit.gateway needs {error.name}: pip install 'streamkit[gateway]'", name=error.name
        ) from None
    return value


def __dir__() -> list[str]:
    """List the lazily loaded names too."""
    return sorted(set(globals()) | set(__all__))
