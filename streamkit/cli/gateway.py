"""Serve clients of any wire with the models of one provider, or of several.

The clients of Anthropic, OpenAI (Chat Completions and Responses), Gemini, Bedrock, Ollama and Cohere ask this server at
their usual paths; requests and streams are translated live. The key is read from the provider's usual environment
variable. For example, Claude Code on a Gemini model:

  streamkit gateway --provider gemini --model gemini-2.5-pro
  ANTHROPIC_BASE_URL=http://127.0.0.1:8700 ANTHROPIC_API_KEY=any claude

Without --model the client's name of the model is sent. Each further --upstream is asked if those before it fail before
their first event:

  streamkit gateway --upstream anthropic --upstream openai_compatible=http://localhost:8000/v1#qwen3

With --require-key clients must send the key in the environment variable STREAMKIT_GATEWAY_KEY as their own, with --keys
one of a file; without either only this computer is served. With --store the state of open conversations outlasts a
restart, and workers share it; what clients carry of it is signed with a key in the store, or in the variable
STREAMKIT_GATEWAY_STATE_KEY. Ctrl-C lets open responses end.
"""

from __future__ import annotations

import argparse
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from streamkit import providers
from streamkit.cli.connection import base_address, find_key, read_key, request_headers
from streamkit.cli.gateway_process import GatewaySettings, allow_open_files, serve_gateway
from streamkit.cli.serving import (
    TAP_PORT,
    add_connection_arguments,
    add_record_argument,
    connection_limits,
    is_loopback,
    listen,
    logged,
    observation,
    port_number,
    terminated_in_order,
)
from streamkit.errors import UsageError
from streamkit.providers.contract.traits import Endpoint
from streamkit.reading.time_limits import check_seconds

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from streamkit.gateway import GatewayLimits, Upstream

__all__ = [
    "ConfiguredUpstream",
    "configure",
    "configure_upstream",
    "parse_upstream",
    "read_config",
    "request_limits",
    "run",
]

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
    if (first := _VERSION.match(endpoint.path)) is not None:  # other SDKs take the paths' version there
        address = address.removesuffix(first[0])
    return ConfiguredUpstream(
        provider=provider,
        address=address,
        key=key,
        models=models or {},
        first_event_timeout=first_event_timeout,
    )


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

    The file has one table for each::

        [[upstream]]
        provider = "anthropic"

        [[upstream]]
        provider = "openai_compatible"
        base-url = "http://localhost:8000/v1"
        key-variable = "VLLM_KEY"
        first-event-timeout = 20
        models = { "claude-sonnet-4-5" = "qwen3", "*" = "qwen3-small" }

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


_KEY_VARIABLE = "STREAMKIT_GATEWAY_KEY"
_STATE_KEY_VARIABLE = "STREAMKIT_GATEWAY_STATE_KEY"
_PORT = 8700


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--provider", metavar="NAME", help=f"the upstream: one of {', '.join(providers.names())}")
    parser.add_argument("--base-url", metavar="URL", help="another base URL, as the provider's own SDK takes it")
    models = parser.add_mutually_exclusive_group()
    models.add_argument("--model", metavar="M", help="the upstream's model, whatever model a client names")
    models.add_argument(
        "--model-map",
        action="append",
        default=[],
        metavar="CLIENT=UPSTREAM",
        help="the upstream's model for a client's name of one; * is any other name; repeat it for more models",
    )
    parser.add_argument(
        "--upstream",
        action="append",
        default=[],
        metavar="PROVIDER[=URL][#MODEL]",
        help="an upstream that is asked if those before it fail before their first event; repeat it for more",
    )
    parser.add_argument("--config", metavar="FILE", help="further upstreams, from a TOML file with tables [[upstream]]")
    parser.add_argument(
        "--first-event-timeout",
        type=float,
        metavar="SECONDS",
        help="the time until an upstream's first event, after which it has failed (no limit)",
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="HOST", help="the address to serve (127.0.0.1)")
    parser.add_argument(
        "--port", type=port_number, default=_PORT, metavar="N", help=f"the port; 0: any free one ({_PORT})"
    )
    parser.add_argument(
        "--tap",
        nargs="?",
        type=port_number,
        const=TAP_PORT,
        metavar="PORT",
        help=f"show requests while they stream, on a page of this computer's port ({TAP_PORT})",
    )
    add_record_argument(parser)
    add_connection_arguments(parser)
    usage = "any limit of requests by its name in GatewayLimits, such as silence=5; repeat it for more"
    parser.add_argument("--limit", action="append", default=[], metavar="NAME=N", help=usage)
    for option, metavar, name, meaning in (
        ("--max-requests", "N", "requests", "responses that are open at the same time; one more gets 503 (1000)"),
        ("--max-body", "BYTES", "body", "the size of a request's body, also decompressed; above it 413 (64 MiB)"),
    ):
        parser.add_argument(
            option, action="append", dest="limit", metavar=metavar, type=partial(_limit, name), help=meaning
        )
    parser.add_argument("--require-key", action="store_true", help=f"refuse clients without the key in {_KEY_VARIABLE}")
    parser.add_argument(
        "--keys",
        metavar="FILE",
        help="refuse clients without a key of this TOML file, which `streamkit key` makes; SIGHUP reads it again",
    )
    parser.add_argument(
        "--metrics", action="store_true", help="metrics for Prometheus at /metrics, for a key that may read them"
    )
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that serve, which need a --store (1)"
    )
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="the form of the lines of the log (text)"
    )
    parser.add_argument(
        "--store",
        metavar="ADDRESS",
        help="where the state of calls, stored responses and the key of carried state are kept, for workers that share"
        " them and for a restart: a SQLite file, postgresql://... or redis://... (the memory of this process)",
    )


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    import anyio

    from streamkit.cli.terminal import Notes

    upstreams = _upstreams(options)
    key = read_key(_KEY_VARIABLE)
    if options.require_key and options.keys is not None:
        raise UsageError("give --require-key, for one key, or --keys FILE, but not both")
    if options.require_key and not key:
        raise UsageError(f"--require-key needs a key for clients: set the environment variable {_KEY_VARIABLE}")
    if not options.require_key and options.keys is None and not is_loopback(options.host):
        message = "can be reached by other computers: give --require-key as well, or --keys FILE"
        raise UsageError(f"{options.host!r} {message}")
    _check_workers(options)
    settings = GatewaySettings(
        create_upstreams=partial(_create_upstreams, upstreams),
        key=key if options.require_key else None,
        keys=options.keys,
        metrics=options.metrics,
        state_keys=(read_key(_STATE_KEY_VARIABLE) or "").split(),
        limits=request_limits(options.limit),
        connections=connection_limits(options),
        store=options.store,
    )
    allow_open_files()
    hidden = [*(upstream.key or "" for upstream in upstreams), key or "", *settings.state_keys]
    notes = Notes(secrets=hidden)
    has_uvloop = find_spec("uvloop") is not None  # not on Windows

    def serve(is_first: bool = True) -> int:
        """Serve in this process."""
        with terminated_in_order(), observation(options.tap, options.record, hidden, report) as observer:
            is_observed = options.tap is not None or options.record is not None
            arguments = settings, listening, observer if is_observed else None, report, is_first
            anyio.run(serve_gateway, *arguments, backend_options={"use_uvloop": has_uvloop})
        return 0

    listening = listen(options.host, options.port)
    with listening, logged(notes, as_json=options.log_format == "json") as report:
        if options.workers == 1:
            return serve()
        from streamkit.cli.exit_codes import exit_code_of
        from streamkit.cli.workers import run_workers, shared_metrics

        def work(is_first: bool) -> int:
            return exit_code_of("gateway", partial(serve, is_first))

        with shared_metrics(options.metrics) as on_end:
            return run_workers(options.workers, work, report, reloads=options.keys is not None, on_end=on_end)


def _check_workers(options: argparse.Namespace) -> None:
    """Raise a ``UsageError`` if several workers cannot work."""
    if options.workers < 1:
        raise UsageError(f"--workers must be at least 1, not {options.workers}")
    if options.workers == 1:
        return
    if not hasattr(os, "fork"):
        raise UsageError("--workers needs a system with fork, such as Linux: start several gateways behind a proxy")
    if options.store is None:
        raise UsageError(
            "--workers needs a store that all workers share, since the next request of a conversation may come to"
            " another one: give --store as well, a SQLite file or redis://..."
        )
    if options.tap is not None:
        raise UsageError("--tap shows the requests of one process: give --workers 1, or --record DIR")


def _create_upstreams(upstreams: Sequence[ConfiguredUpstream], client: ClientSession) -> list[Upstream]:
    """Return the upstreams, asked by an HTTP client."""
    from streamkit.cli.upstream_client import ask_over_http
    from streamkit.gateway import Upstream

    return [
        Upstream(
            provider=upstream.provider,
            ask=ask_over_http(client, upstream.address, request_headers(upstream.endpoint, upstream.key)),
            endpoint=upstream.address,
            models=upstream.models,
            first_event_timeout=upstream.first_event_timeout,
            secrets=[upstream.key or ""],
        )
        for upstream in upstreams
    ]


def _upstreams(options: argparse.Namespace) -> list[ConfiguredUpstream]:
    """Return the upstreams in the order in which they are asked; raise UsageError if there is none."""
    timeout: float | None = options.first_event_timeout
    upstreams = []
    if options.provider is not None:
        models = _models(options.model, options.model_map)
        upstreams.append(
            configure_upstream(options.provider, options.base_url, models=models, first_event_timeout=timeout)
        )
    elif options.base_url or options.model or options.model_map:
        raise UsageError("--base-url, --model and --model-map belong to --provider: give it, or --upstream alone")
    upstreams += [parse_upstream(text, timeout) for text in options.upstream]
    if options.config is not None:
        upstreams += read_config(options.config, timeout)
    if not upstreams:
        raise UsageError("there is no upstream: give --provider NAME, --upstream PROVIDER or --config FILE")
    return upstreams


def _models(model: str | None, pairs: list[str]) -> dict[str, str]:
    """Return the upstream's models by the client's names."""
    if model is not None:
        return {"*": model}
    models: dict[str, str] = {}
    for pair in pairs:
        name, separator, upstream = pair.partition("=")
        if not (name and separator and upstream):
            raise UsageError(f"--model-map takes CLIENT=UPSTREAM, such as 'claude-sonnet-4-5=gpt-5', not {pair!r}")
        models[name] = upstream
    return models


def request_limits(pairs: Sequence[str]) -> GatewayLimits:
    """Return the limits of requests that ``--limit NAME=N`` states; a ``UsageError`` is raised for another name."""
    from streamkit.gateway import GatewayLimits

    usual = GatewayLimits()
    names = [each.name for each in fields(usual)]
    given: dict[str, Any] = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        try:
            given[name] = (float if isinstance(getattr(usual, names[names.index(name)]), float) else int)(number)
        except ValueError:
            raise UsageError(f"--limit takes NAME=N with a name of {', '.join(names)}, not {pair!r}") from None
    return replace(usual, **given)


def _limit(name: str, text: str) -> str:
    """Return a number of the command line as ``--limit`` takes it."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"it takes a number, not {text!r}")
    return f"{name}={text}"
