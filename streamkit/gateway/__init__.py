"""A gateway: clients of one wire on the models of another, as an ASGI application.

``Gateway`` is the application. It reads a client's request (Anthropic, Chat Completions, Responses, Gemini, Bedrock,
Ollama, Cohere), writes it for an upstream, and writes the events of the response as the client's own stream, live. It
speaks no HTTP to the upstream itself: ``Upstream.ask`` opens the response. ``streamkit gateway`` is the command.

1. `application`: the ASGI application, and the service of a request: limits, fallbacks, clients that disconnect;
   `gateway_state`: what all requests share.
2. `access`: the keys of clients, and the hook that decides about a request; `toml_tables`: the file of keys. `routes`:
   the wire and the action of a path; `routing`: the upstreams of a model, and those that are left alone after a
   failure; `bodies`: the limits, and the bodies of requests, which are read within them; `client`: the site of a
   request, the response that is sent, with heartbeats while the upstream is silent.
3. `attempt`: one request to one upstream, from the client's body to the client's bytes; `translation`: the calls and
   the opaque state of its response in the form that the client sends back.
4. `replies`: errors in the client's wire; `model_lists`: the models that clients can list.
5. `stores`: where the state of calls and responses are kept for later requests; `passed_on`: requests that are no turn.
6. `logs`, `metrics`: lines and figures about requests. `operation`: whether the gateway lives and takes requests.
7. `upstream`: the upstreams, the description of a request and its response, and the interface of their observer.

`tap` shows the traffic that an observer sees.

No header of a client is sent to an upstream except those that select features of the same wire, so no key of a client
leaves the gateway; and no message for a client or a log contains a text of ``Upstream.secrets``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamkit.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamkit.gateway.access import Refusal, hash_key
    from streamkit.gateway.application import Gateway
    from streamkit.gateway.bodies import GatewayLimits
    from streamkit.gateway.logs import LogFormatter, log_exchange
    from streamkit.gateway.routing import Cooldowns
    from streamkit.gateway.stores.store import MemoryStore, Store
    from streamkit.gateway.upstream import Ask, Exchange, Observer, Upstream, UpstreamRequest

__all__ = [
    "Ask",
    "Cooldowns",
    "Exchange",
    "Gateway",
    "GatewayLimits",
    "LogFormatter",
    "MemoryStore",
    "Observer",
    "Refusal",
    "Store",
    "Upstream",
    "UpstreamRequest",
    "hash_key",
    "log_exchange",
]

_load, __dir__ = lazy_names(  # the tap, which is in this package, needs no extra
    __name__,
    {
        "upstream": "Ask Exchange Observer Upstream UpstreamRequest",
        "access": "Refusal hash_key",
        "application": "Gateway",
        "bodies": "GatewayLimits",
        "logs": "LogFormatter log_exchange",
        "routing": "Cooldowns",
        "stores.store": "MemoryStore Store",
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"streamkit.gateway needs {error.name}: pip install 'streamkit[gateway]'", name=error.name
        ) from None
