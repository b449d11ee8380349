"""A request to a real provider: its address, key and settings, from the provider's endpoint and the environment."""

from __future__ import annotations

import os
from typing import Any

from streamkit.errors import UsageError
from streamkit.providers.endpoint import Endpoint
from streamkit.redaction import redact

__all__ = ["base_address", "find_key", "request_headers", "request_settings", "request_url"]


def request_url(endpoint: Endpoint, model: str, base_url: str | None = None) -> str:
    """Return the URL to post to; the errors are those of `base_address`."""
    return base_address(endpoint, base_url) + endpoint.path.format(model=model)


def base_address(endpoint: Endpoint, base_url: str | None = None) -> str:
    """Return the base URL: the given one, that of the environment, or that of the provider's own SDK.

    Raises:
        UsageError: no base URL is known, or it is no HTTP address.
    """
    variable = endpoint.base_url_variable
    base = base_url or (variable and os.environ.get(variable)) or endpoint.base_url
    if not base:
        raise UsageError(
            "the provider has no usual address: give --base-url" + (f" or set {variable}" if variable else "")
        )
    if not base.startswith(("http://", "https://")):
        raise UsageError(f"the base URL must begin with http:// or https://, not {redact(base)!r}")
    return base.rstrip("/")


def find_key(endpoint: Endpoint) -> str | None:
    """Return the key from the environment, None if there is none."""
    return next((os.environ[name] for name in endpoint.key_variables if os.environ.get(name)), None)


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
