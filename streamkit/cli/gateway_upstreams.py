"""The upstreams of ``streamkit gateway``: those of the command line and those of a TOML file.

An upstream on the command line is ``PROVIDER[=URL][#MODEL]``. A file has one table for each::

    [[upstream]]
    provider = "anthropic"

    [[upstream]]
    provider = "openai_compatible"
    base-url = "http://localhost:8000/v1"
    key-variable = "VLLM_KEY"
    first-event-timeout = 20
    models = { "claude-sonnet-4-5" = "qwen3", "*" = "qwen3-small" }
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from streamkit import providers
from streamkit.cli.connection import base_address, find_key, read_key
from streamkit.errors import UsageError
from streamkit.providers.endpoint import Endpoint
from streamkit.time_limits import check_seconds

__all__ = ["ConfiguredUpstream", "configure_upstream", "parse_upstream", "read_config"]

_VERSION = re.compile(r"/(?:v\d\w*|api)(?=/)")  # of a path, Ollama's included
_FIELDS = ("provider", "base-url", "key-variable", "model", "models", "first-event-timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredUpstream:
    """An upstream as configured, with its address and key.

    Attributes:
        provider: the name of the provider.
        address: the base URL.
        key: the key; None for none.
        models: the upstream's model by the client's name of one.
        first_event_timeout: seconds; None for no limit.
    """

    provider: str
    address: str
    key: str | None = field(default=None, repr=False)
    models: Mapping[str, str] = field(default_factory=dict)
    first_event_timeout: float | None = None

    @property
    def endpoint(self) -> Endpoint:
        """The facts of the provider's HTTP endpoint."""
        return providers.get(self.provider).traits.endpoint


def configure_upstream(
    provider: str,
    base_url: str | None = None,
    *,
    models: Mapping[str, str] | None = None,
    key_variable: str | None = None,
    first_event_timeout: float | None = None,
) -> ConfiguredUpstream:
    """Return an upstream, with the key and the base URL of the environment.

    Args:
        provider: the name of the provider.
        base_url: another base URL than the provider's.
        models: the upstream's model by the client's name of one.
        key_variable: the environment variable with the key; None for the provider's usual ones.
        first_event_timeout: seconds; None for no limit.

    Raises:
        UsageError: the provider is unknown, there is no key or one that cannot be sent, no address is known or it is
            none, or the seconds are not above 0.
    """
    endpoint = providers.get(provider).traits.endpoint
    check_seconds("first-event-timeout", first_event_timeout)
    key = find_key(endpoint) if key_variable is None else read_key(key_variable)
    if key is None and (key_variable is not None or (endpoint.key_required and base_url is None)):
        variables = " or ".join([key_variable] if key_variable is not None else endpoint.key_variables)
        raise UsageError(f"there is no key for {provider}: set the environment variable {variables}")
    address = base_address(endpoint, base_url)
    if key is not None and "@" in urlsplit(address).netloc and endpoint.key_header[0] == "authorization":
        raise UsageError(f"{provider} has a key and a base URL with a password, which are one header: give one of them")
    return ConfiguredUpstream(
        provider=provider,
        address=_without_repeated_version(address, endpoint),
        key=key,
        models=models or {},
        first_event_timeout=first_event_timeout,
    )


def _without_repeated_version(address: str, endpoint: Endpoint) -> str:
    """Return an address without a version at its end that begins the provider's paths: other SDKs take it there."""
    first = _VERSION.match(endpoint.path)
    return address if first is None else address.removesuffix(first[0])


def parse_upstream(text: str, first_event_timeout: float | None = None) -> ConfiguredUpstream:
    """Return the upstream that ``PROVIDER[=URL][#MODEL]`` describes.

    Raises:
        UsageError: the text has another form, or see ``configure_upstream``.
    """
    rest, has_model, model = text.partition("#")
    provider, has_url, base_url = rest.partition("=")
    if not provider or (has_model and not model) or (has_url and not base_url):
        raise UsageError(
            "--upstream takes PROVIDER[=URL][#MODEL], such as gemini#gemini-2.5-pro or"
            f" openai_compatible=http://localhost:8000/v1#qwen3, not {text!r}"
        )
    models = {"*": model} if model else {}
    return configure_upstream(provider, base_url or None, models=models, first_event_timeout=first_event_timeout)


def read_config(path: str, first_event_timeout: float | None = None) -> list[ConfiguredUpstream]:
    """Return the upstreams of a TOML file, in its order.

    Args:
        path: the file.
        first_event_timeout: the seconds of upstreams that state none.

    Raises:
        UsageError: the file cannot be read or is no such file; or see ``configure_upstream``. The message names the
            file and the upstream.
    """
    try:
        config = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    tables = config.pop("upstream", None)
    if not isinstance(tables, list) or not tables or config:
        found = f"it has {', '.join(config)}" if config else "it has none"
        raise UsageError(f"{path} must consist of tables [[upstream]], each with a provider; {found}")
    upstreams = []
    for number, table in enumerate(tables, 1):
        try:
            upstreams.append(_read_table(table, first_event_timeout))
        except UsageError as error:
            raise UsageError(f"{path}, upstream {number}: {error}") from None
    return upstreams


def _read_table(table: Any, first_event_timeout: float | None) -> ConfiguredUpstream:
    if not isinstance(table, dict):
        raise UsageError(f"an upstream is a table with a provider, not {table!r}")
    if unknown := [name for name in table if name not in _FIELDS]:
        raise UsageError(f"there is no field {unknown[0]!r}: the fields are {', '.join(_FIELDS)}")
    for name in ("provider", "base-url", "key-variable", "model"):
        if not isinstance(table.get(name, ""), str):
            raise UsageError(f"{name} must be a text, not {table[name]!r}")
    models = table.get("models", {})
    if not isinstance(models, dict) or not all(isinstance(model, str) for model in models.values()):
        raise UsageError(f"models must be a table of the upstream's models by the client's names, not {models!r}")
    if "model" in table:
        if models:
            raise UsageError("give model, for every name, or models, by name, but not both")
        models = {"*": table["model"]}
    if not table.get("provider"):
        raise UsageError(f"provider must be one of {', '.join(providers.names())}")
    return configure_upstream(
        table["provider"],
        table.get("base-url"),
        models=models,
        key_variable=table.get("key-variable"),
        first_event_timeout=table.get("first-event-timeout", first_event_timeout),
    )
