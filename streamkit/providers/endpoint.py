"""How a provider is reached over HTTP, as data: address, path, key, and the shapes of what a server of it accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Endpoint"]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One provider's side of HTTP.

    Attributes:
        base_url: the base URL that the provider's own SDK has; None if every user has another one.
        base_url_variable: the environment variable that usually holds it.
        path: the path after the base URL; ``{model}`` is the model.
        key_variables: the environment variables that may hold the key; the first one that is set is used.
        key_header: the name of the header that carries it, and its value with ``{}`` for the key.
        key_required: the provider answers no request without a key.
        headers: further headers of every request.
        model_in_body: the model is a field of the body.
        limit_field: the path in the body of the most tokens of a response.
        default_limit: their number if none is given, for providers that refuse a request without it.
        sdk_base_path: the path that the base URL of the provider's SDK has after the server's address.
        route: a regular expression for the path of a request, with the group ``model`` if the model is in it, and the
            group ``verb`` if the path asks for a stream.
        route_example: such a path, for messages to people.
        response_id: prefix of the ids of responses, and the number of characters after it.
        call_id: the same for calls; None if the wire gives its calls no ids, or its encoder makes them.
        streams_by_default: a body that does not mention streaming asks for a stream.
        answers_arrays: the response is one JSON array if the query does not ask for events.
    """

    base_url: str | None = None
    base_url_variable: str | None = None
    path: str = "/chat/completions"
    key_variables: tuple[str, ...] = ()
    key_header: tuple[str, str] = ("authorization", "Bearer {}")
    key_required: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    model_in_body: bool = True
    limit_field: tuple[str, ...] = ("max_tokens",)
    default_limit: int | None = None
    # of a server of this wire; the defaults are Chat Completions', which most third parties speak
    sdk_base_path: str = "/v1"
    route: str = r"(?:/openai/deployments/(?P<model>[^/]+)|/.+)?/chat/completions"
    route_example: str = "/v1/chat/completions"
    # The shapes of ids are those of the vendors' streams (call_WY2R9D3MQrwbUTvQFtua91zx, toolu_01EKqbqmZrGRXy18eN7m9kvY).
    response_id: tuple[str, int] = ("chatcmpl-", 29)
    call_id: tuple[str, int] | None = ("call_", 24)
    streams_by_default: bool = False
    answers_arrays: bool = False
