"""The streams of a run over HTTP, with httpx (BSD, https://www.python-httpx.org), the extra ``http``.

`connect` returns the ``create_new_stream`` of a run for one provider and model: the address, the path, the headers and
the key are those of the provider's own SDK and of its usual environment variables. A request is made once: retries,
fallbacks and time limits are the run's. The functions below it are the same knowledge for programs that have an HTTP
client of their own. This module must not depend on the command line or the gateway, which use it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

import anyio

from streamkit import providers
from streamkit.errors import UsageError
from streamkit.execution.round.context import Connection, RoundContext
from streamkit.providers import render_request
from streamkit.providers.contract.traits import Endpoint
from streamkit.providers.registry import ProviderName
from streamkit.providers.requests.request import Settings, to_settings
from streamkit.providers.writing.encoding import encode_json
from streamkit.values.distribution import missing_package
from streamkit.values.redaction import redact

if TYPE_CHECKING:
    import httpx

__all__ = [
    "HttpConnection",
    "base_address",
    "connect",
    "find_key",
    "open_http",
    "read_key",
    "request_headers",
    "request_url",
]

_WAIT = 30.0  # seconds to connect, to write, and for a connection of the pool
_READ = 600.0  # seconds; a model may think for minutes before the first byte
_VERSION = re.compile(r"/(?:v\d\w*|api)(?=/)")  # of a path, Ollama's included


def connect(
    provider: ProviderName | str,
    *,
    model: str,
    api_key: str | None = None,
    base_url: str | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    body: Mapping[str, Any] | None = None,
    client: httpx.AsyncClient | None = None,
) -> HttpConnection:
    """Return a connection to a provider, for ``run_loop(connect("anthropic", model="..."), history=[...])``.

    It may be used for several runs, one after the other or at the same time; its HTTP client is opened by the first and
    closed with the last. ``async with connect(...) as connection`` keeps it open between them.

    Args:
        provider: the provider's name.
        model: the provider's name of the model.
        api_key: the key; by default that of the provider's usual environment variable.
        base_url: another base URL, as the provider's own SDK takes it. It needs no key.
        settings: neutral settings of each request, such as ``{"temperature": 0, "max_output_tokens": 500}``.
        body: further fields of each request, by the provider's own names, such as ``{"store": False}``.
        client: a client of httpx to be used, which stays open: its headers, proxies and time limits apply.

    Raises:
        UsageError: the provider is unknown, there is no key or one that cannot be sent, no address is known or it is
            none, a setting is none, or the environment names a proxy that cannot be used.
        ModuleNotFoundError: httpx is not installed.
    """
    return HttpConnection(provider, model, api_key, base_url, settings, body, client)


class HttpConnection(Connection):
    """What `connect` returns: the ``create_new_stream`` of runs.

    Fallbacks of a run (``Retries(fallbacks=[Target("gemini", "gemini-2.5-pro")])``) and hooks that change the provider
    are requested of that provider, with the key of its environment variable; ``Target.endpoint`` is its base URL. So is
    another server of the same provider: the key of this connection is not sent there.

    Attributes:
        provider: the provider's name.
        model: the model.
        endpoint: the base URL.
    """

    def __init__(
        self,
        provider: str,
        model: str,
        api_key: str | None,
        base_url: str | None,
        settings: Settings | Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        client: httpx.AsyncClient | None,
    ) -> None:
        if not isinstance(model, str) or not model:
            raise UsageError(f"model must be the provider's name of a model, not {model!r}")
        found = providers.get(provider)
        self.provider: str = found.name
        self.model: str = model
        self.endpoint: str = base_address(found.traits.endpoint, base_url)
        self._settings = {} if settings is None else to_settings(settings).values
        self._body = dict(body or {})
        # A key is sent to the server that it was passed for, and to no other one of its provider.
        self._keys: dict[tuple[str, str | None], str | None] = {
            (found.name, self.endpoint): _usable_key(found.name, api_key, is_own_server=base_url is not None)
        }
        self._given, self._client = client, client
        self._users = 0
        if client is None:
            _require_httpx()

    def __repr__(self) -> str:
        return f"<HttpConnection {self.provider} {self.model} {redact(self.endpoint)}>"

    def __call__(self, context: RoundContext) -> AbstractAsyncContextManager[httpx.Response]:
        """Return the response to the request of a context, to be entered.

        Raises:
            UsageError: the connection is not open, or nothing is known of the provider of a fallback.
        """
        if self._client is None:
            raise UsageError("the connection is closed: use it in run_loop, or within `async with connection:`")
        name, model = context.provider.name, context.model or self.model
        is_own = name == self.provider and context.endpoint in (None, self.endpoint)
        if name != self.provider and context.model is None:
            raise UsageError(f"the fallback to {name} must name its model: Target({name!r}, 'MODEL')")
        endpoint = context.provider.traits.endpoint
        address = self.endpoint if is_own else context.endpoint
        if (name, address) not in self._keys:
            self._keys[name, address] = _usable_key(name, None, is_own_server=address is not None)
        settings = render_request([], context.provider, settings={**self._settings, "model": model}, stream=True)
        body = _merge(_merge(settings, self._body if is_own else {}), context.request)
        return self._client.stream(
            "POST",
            request_url(endpoint, model, address),
            headers={"content-type": "application/json", **request_headers(endpoint, self._keys[name, address])},
            content=encode_json(body),
        )

    async def __aenter__(self) -> Self:
        """Open the HTTP client, if nothing has opened it yet."""
        if self._client is None:
            self._client = open_http(timeout=(_WAIT, _READ, _WAIT, _WAIT))
        self._users += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the HTTP client, if nothing else uses it."""
        self._users -= 1
        if not self._users and self._client is not None and self._given is None:
            client, self._client = self._client, None
            with anyio.CancelScope(shield=True):
                await client.aclose()


# ---------------------------------------------------------------- addresses, keys and headers


def request_url(endpoint: Endpoint, model: str, base_url: str | None = None) -> str:
    """Return the URL to post to; the errors are those of `base_address`."""
    return base_address(endpoint, base_url) + endpoint.path.format(model=quote(model, safe=""))


def base_address(endpoint: Endpoint, base_url: str | None = None) -> str:
    """Return the base URL: the given one, that of the environment, or that of the provider's own SDK.

    Raises:
        UsageError: no base URL is known, or it is no HTTP address to which paths can be appended.
    """
    variable = endpoint.base_url_variable
    base = (base_url or (variable and os.environ.get(variable)) or endpoint.base_url or "").strip()
    if not base:
        raise UsageError(
            "the provider has no usual address: pass base_url (--base-url)"
            + (f" or set {variable}" if variable else "")
        )
    if not base.startswith(("http://", "https://")):
        raise UsageError(f"the base URL must begin with http:// or https://, not {redact(base)!r}")
    try:
        parts = urlsplit(base)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:  # of brackets or of a port
        is_address = False
    if not is_address or " " in base or not base.isprintable():
        raise UsageError(f"the base URL is no address: {redact(base)!r}")
    if "?" in base or "#" in base:
        raise UsageError(f"the base URL must end before '?' and '#', since a path is appended: {redact(base)!r}")
    base = base.rstrip("/")
    if "{" not in endpoint.path and base.endswith(endpoint.path):
        raise UsageError(f"the base URL must end before {endpoint.path}, which is appended: {redact(base)!r}")
    version = _VERSION.match(endpoint.path)  # other SDKs take the paths' version in the base URL
    return base.removesuffix(version[0]) if version is not None else base


def find_key(endpoint: Endpoint) -> str | None:
    """Return the key from the environment, None if there is none; the errors are those of `read_key`."""
    return next((key for name in endpoint.key_variables if (key := read_key(name))), None)


def read_key(variable: str) -> str | None:
    """Return the key in an environment variable, without white space around it; None if there is none.

    Files and secrets of containers often end with a line end, which no header can have.

    Raises:
        UsageError: the text cannot be sent as a key.
    """
    return _check_key(os.environ.get(variable, ""), f"in the environment variable {variable}")


def _check_key(text: str, place: str) -> str | None:
    key = text.strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key {place} has a character that no key has: copy it again")
    return key or None


def _usable_key(provider: str, api_key: str | None, *, is_own_server: bool) -> str | None:
    """Return the key that was passed, or that of the environment; None if a server of one's own may need none."""
    endpoint = providers.get(provider).traits.endpoint
    key = find_key(endpoint) if api_key is None else _check_key(api_key, "in api_key")
    if key is None and endpoint.key_required and not is_own_server:
        variables = " or ".join(endpoint.key_variables)
        raise UsageError(f"there is no key for {provider}: set the environment variable {variables}, or pass api_key")
    return key


def request_headers(endpoint: Endpoint, key: str | None) -> dict[str, str]:
    """Return the headers of a request."""
    name, value = endpoint.key_header
    return {**endpoint.headers, **({name: value.format(key)} if key else {})}


def open_http(**settings: Any) -> httpx.AsyncClient:
    """Return a client of httpx.

    Raises:
        UsageError: a proxy that the environment names cannot be used.
    """
    _require_httpx()
    import httpx

    try:
        return httpx.AsyncClient(**settings)
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise UsageError(f"a proxy of the environment cannot be used: {redact(str(error))}") from None


def _require_httpx() -> None:
    try:
        import httpx  # noqa: F401 - a base install lacks it
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise missing_package("streamkit.bridges.http", error, "http") from None


def _merge(settings: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the two as one body; objects under the same name are merged."""
    merged = dict(settings)
    for name, value in request.items():
        before = merged.get(name)
        merged[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return merged
