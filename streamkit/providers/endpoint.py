"""The HTTP endpoint of a provider, as data: address, path, key, and the requests and ids of its server."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

__all__ = ["Endpoint"]


class Endpoint(Struct, frozen=True, kw_only=True):
    """The HTTP endpoint of one provider.

    Attributes:
        base_url: the base URL that the provider's own SDK has; None if it differs for every user.
        base_url_variable: the environment variable that usually contains it.
        path: the path after the base URL; ``{model}`` is the model.
        key_variables: the environment variables that may contain the key; the first one that is set is used.
        key_header: the name of the header with the key, and its value with ``{}`` for the key.
        key_required: the provider rejects requests without a key.
        headers: further headers of every request.
        feature_headers: the headers, in lower case, with which a client selects features that fields of the body need.
        model_in_body: the model is a field of the body.
        limit_field: the path in the body of the maximum number of tokens of a response.
        default_limit: this maximum if the caller sets none, for providers that reject a request without it.
        sdk_base_path: the path that the base URL of the provider's SDK has after the server's address.
        route: a regular expression for the path of a request, with the group ``model`` if the model is in it, and the
            group ``verb`` if the path asks for a stream.
        route_example: an example of such a path, for error messages.
        count_path: as ``path``, for a request that counts the tokens of its input; None if there is none.
        count_route: as ``route``, for such a request.
        response_id: prefix of response ids, and the number of characters after it.
        call_id: the same for call ids; None if the wire has none or the encoder creates them.
        streams_by_default: a body that does not mention streaming asks for a stream.
        request_id_header: the header of a response with its id, from which the SDKs read it.
        limit_headers: how the names of the headers of a response about rate limits and about another try begin, in
            lower case.
        error_name_header: the header of a refused request that names its error; None if the body alone does.
        error_names: the name of the error by HTTP status, for that header.
        answers_arrays: the response is one JSON array if the query does not ask for events.
    """

    base_url: str | None = None
    base_url_variable: str | None = None
    path: str = "/chat/completions"
    key_variables: tuple[str, ...] = ()
    key_header: tuple[str, str] = ("authorization", "Bearer {}")
    key_required: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    feature_headers: tuple[str, ...] = ()
    model_in_body: bool = True
    limit_field: tuple[str, ...] = ("max_tokens",)
    default_limit: int | None = None
    # Facts of a server of this wire. The defaults are those of Chat Completions, the wire format of most third parties.
    sdk_base_path: str = "/v1"
    route: str = r"(?:/openai/deployments/(?P<model>[^/]+)|/.+)?/chat/completions"
    route_example: str = "/v1/chat/completions"
    count_path: str | None = None
    count_route: str | None = None
    # The forms of ids are those of real streams, such as call_WY2R9D3MQrwbUTvQFtua91zx.
    response_id: tuple[str, int] = ("chatcmpl-", 29)
    call_id: tuple[str, int] | None = ("call_", 24)
    streams_by_default: bool = False
    request_id_header: str = "x-request-id"
    # https://platform.openai.com/docs/guides/rate-limits (Groq, Mistral and others have other ends). The SDKs
    # of OpenAI and Anthropic read ``x-should-retry`` before the status.
    limit_headers: tuple[str, ...] = ("x-ratelimit", "x-should-retry")
    error_name_header: str | None = None
    error_names: Mapping[int, str] = field(default_factory=dict)
    answers_arrays: bool = False
