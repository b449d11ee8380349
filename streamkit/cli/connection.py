"""A request to a real provider: its address, key and settings, from the provider's endpoint and the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from streamkit.errors import UsageError
from streamkit.providers.contract.traits import Endpoint
from streamkit.values.redaction import redact

if TYPE_CHECKING:
    import httpx

__all__ = [
    "base_address",
    "find_key",
    "open_http",
    "read_key",
    "request_headers",
    "request_settings",
    "request_url",
]


def request_url(endpoint: Endpoint, model: str, base_url: str | None = None) -> str:
    """Return the URL to post to; the errors are those of `base_address`."""
    return base_address(endpoint, base_url) + endpoint.path.format(model=model)


def base_address(endpoint: Endpoint, base_url: str | None = None) -> str:
    """Return the base URL: the given one, that of the environment, or that of the provider's own SDK.

    Raises:
        UsageError: no base URL is known, or it is no HTTP address to which paths can be appended.
    """
    variable = endpoint.base_url_variable
    base = (base_url or (variable and os.environ.get(variable)) or endpoint.base_url or "").strip()
    if not base:
        raise UsageError(
            "the provider has no usual address: give --base-url" + (f" or set {variable}" if variable else "")
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
    return base


def find_key(endpoint: Endpoint) -> str | None:
    """Return the key from the environment, None if there is none; the errors are those of `read_key`."""
    return next((key for name in endpoint.key_variables if (key := read_key(name))), None)


def read_key(variable: str) -> str | None:
    """Return the key in an environment variable, without white space around it; None if there is none.

    Files and secrets of containers often end with a line end, which no header can have.

    Raises:
        UsageError: the text cannot be sent as a key.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"the key in the environment variable {variable} has a character that no key has: copy it again"
        )
    return key or None


def open_http(**settings: Any) -> httpx.AsyncClient:
    """Return a client of httpx.

    Raises:
        UsageError: a proxy that the environment names cannot be used.
    """
    import httpx

    try:
        return httpx.AsyncClient(**settings)
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise UsageError(f"a proxy of the environment cannot be used: {redact(str(error))}") from None


def request_headers(endpoint: Endpoint, key: str | None) -> dict[str, str]:
    """Return the headers of a request."""
    name, value = endpoint.key_header
    return {**endpoint.headers, **({name: value.format(key)} if key else {})}


def request_settings(endpoint: Endpoint, model: str, limit: int | None = None) -> dict[str, Any]:
    """Return the fields of the body that the conversation does not decide."""
    body: dict[str, Any] = {"model": model} if endpoint.model_in_body else {}
    most = limit or endpoint.default_limit
    if most is not None:
        target = body
        for name in endpoint.limit_field[:-1]:
            target = target.setdefault(name, {})
        target[endpoint.limit_field[-1]] = most
    return body
