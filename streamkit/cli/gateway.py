"""Serve clients of any wire with the models of one provider, or of several.

The clients of Anthropic, OpenAI (Chat Completions and Responses), Gemini, Bedrock, Ollama and Cohere ask this server at
their usual paths; requests and streams are translated live. The key is read from the provider's usual environment
variable. For example, Claude Code on a Gemini model:

  streamkit gateway --provider gemini --model gemini-2.5-pro
  ANTHROPIC_BASE_URL=http://127.0.0.1:8700 ANTHROPIC_API_KEY=any claude

Without --model the client's name of the model is sent. Each further --upstream is asked if those before it fail before
their first event:

  streamkit gateway --upstream anthropic --upstream openai_compatible=http://localhost:8000/v1#qwen3

An upstream with names of models is asked first for these, and the others for the rest:

  streamkit gateway --upstream 'openai_chat#gpt-*' --upstream 'anthropic#claude-*,fast=claude-haiku-4-5'

With --require-key clients must send the key in the environment variable STREAMKIT_GATEWAY_KEY as their own, with --keys
one of a file; without either only this computer is served. With --store the state of open conversations outlasts a
restart, and --workers share it; what clients carry of it is signed with a key in the store, or in the variable
STREAMKIT_GATEWAY_STATE_KEY. Ctrl-C lets open responses end.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from streamkit import providers
from streamkit.bridges.http import base_address, find_key, read_key, request_headers
from streamkit.cli.serving import (
    TAP_PORT,
    add_connection_arguments,
    add_record_argument,
    address_of,
    connection_limits,
    is_loopback,
    listen,
    logged,
    observation,
    port_number,
    reloading,
    serve_until_signal,
    terminated_in_order,
)
from streamkit.errors import UsageError
from streamkit.gateway.toml_tables import read_tables
from streamkit.providers.contract.traits import Endpoint
from streamkit.reading.time_limits import check_seconds
from streamkit.values.redaction import redact

if TYPE_CHECKING:
    from streamkit.cli.joined_head import ConnectionLimits
    from streamkit.gateway import GatewayLimits

__all__ = [
    "COLLECTIONS",
    "ConfiguredUpstream",
    "configure",
    "configure_upstream",
    "parse_upstream",
    "read_config",
    "request_limits",
    "run",
]

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

    @property
    def title(self) -> str:
        """The provider, the address, and the names of models that are asked here first."""
        names = [name for name in self.models if name != "*"]
        more = ", ..." if len(names) > _MOST_NAMES else ""
        return f"{self.provider} at {self.address}" + (f" for {', '.join(names[:_MOST_NAMES])}{more}" if names else "")


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
        provider=provider, address=address, key=key, models=models or {}, first_event_timeout=first_event_timeout
    )


def parse_upstream(text: str, first_event_timeout: float | None = None) -> ConfiguredUpstream:
    """Return the upstream that ``PROVIDER[=URL][#MODEL]`` describes.

    MODEL is the model for every name, or a list with commas of names, patterns and ``NAME=MODEL``.

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
    if any(sign in model for sign in "*,="):
        models = {name: own or name for name, _, own in (each.partition("=") for each in model.split(",") if each)}
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
        models = { "claude-sonnet-5" = "qwen3", "*" = "qwen3-small" }

        [[upstream]]
        provider = "openai_chat"
        models = ["gpt-*", "o3"]

    Args:
        path: the file.
        first_event_timeout: the seconds of upstreams that state none.

    Raises:
        UsageError: the file cannot be read or is no such file; or see ``configure_upstream``. The message names the
            file and the upstream.
    """

    def read(table: dict[str, Any], _: object) -> ConfiguredUpstream:
        return _read_table(table, first_event_timeout)

    return read_tables(path, "upstream", "a provider", _FIELDS, read)


def _read_table(table: dict[str, Any], first_event_timeout: float | None) -> ConfiguredUpstream:
    for name in ("provider", "base-url", "key-variable", "model"):
        if not isinstance(table.get(name, ""), str):
            raise UsageError(f"{name} must be a text, not {table[name]!r}")
    models = table.get("models", {})
    if isinstance(models, list) and all(isinstance(name, str) for name in models):
        models = {name: name for name in models}
    if not isinstance(models, dict) or not all(isinstance(model, str) for model in models.values()):
        raise UsageError(
            f"models must be a list of names, or a table of the upstream's models by the client's names, not {models!r}"
        )
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
_FILES = 8192  # enough for the most responses that the gateway serves at the same time
#: The thresholds of Python's garbage collection. By the usual ones a body of 100,000 messages has 16 full collections,
#: each of which stops all requests, the last one for 1.7 s; together they take more than half of its time.
COLLECTIONS = (10_000, 20, 50)
_MOST_NAMES = 8  # of models in a line at the start


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
        help="an upstream that is asked if those before it fail before their first event, or for the models that it"
        " names: #MODEL for every name, #NAME,PATTERN*,NAME=MODEL for these; repeat it for more",
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
    for name, metavar, usage in (
        ("requests", "N", "responses that are open at the same time; one more gets 503 (1000)"),
        ("body", "BYTES", "the size of a request's body, also decompressed; above it 413 (64 MiB)"),
    ):
        kind = f"{name}={{}}".format
        parser.add_argument(f"--max-{name}", action="append", dest="limit", metavar=metavar, type=kind, help=usage)
    parser.add_argument("--strict", action="store_true", help="refuse requests whose meaning an upstream cannot have")
    parser.add_argument("--require-key", action="store_true", help=f"refuse clients without the key in {_KEY_VARIABLE}")
    usage = "refuse clients without a key of this TOML file, which `streamkit key` makes; SIGHUP reads it again"
    parser.add_argument("--keys", metavar="FILE", help=usage)
    usage = "metrics for Prometheus at /metrics, for a key that may read them"
    parser.add_argument("--metrics", action="store_true", help=usage)
    usage = "processes that serve, which need a --store (1)"
    parser.add_argument("--workers", type=int, default=1, metavar="N", help=usage)
    usage = "the form of the lines of the log (text)"
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help=usage)
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
    from streamkit.cli.workers import run_workers, worker_socket

    upstreams = _upstreams(options)
    key = read_key(_KEY_VARIABLE)
    if options.require_key and options.keys is not None:
        raise UsageError("give --require-key, for one key, or --keys FILE, but not both")
    if options.require_key and not key:
        raise UsageError(f"--require-key needs a key for clients: set the environment variable {_KEY_VARIABLE}")
    if not options.require_key and options.keys is None and not is_loopback(options.host):
        message = "can be reached by other computers: give --require-key as well, or --keys FILE"
        raise UsageError(f"{options.host!r} {message}")
    _check_workers(options.workers, options.store, options.tap)
    connections, state_keys = connection_limits(options), (read_key(_STATE_KEY_VARIABLE) or "").split()
    settings: dict[str, Any] = {
        "key": key if options.require_key else None,
        "keys": options.keys,
        "metrics": options.metrics,
        "limits": request_limits(options.limit),
        "state_key": state_keys or (None if options.store is not None else secrets.token_bytes(32)),
        "store": options.store,
        "strict": options.strict,
    }
    _allow_open_files()
    hidden = [*(upstream.key or "" for upstream in upstreams), key or "", *state_keys]
    worker = worker_socket()
    listening, is_first = worker or (listen(options.host, options.port), True)
    with listening, logged(Notes(secrets=hidden), as_json=options.log_format == "json") as report:
        if options.workers > 1 and worker is None:
            return run_workers(options.workers, listening, report, reloads=options.keys is not None)
        with terminated_in_order(), observation(options.tap, options.record, hidden, report) as observer:
            settings["observer"] = None if options.tap is None and options.record is None else observer
            arguments = upstreams, settings, listening, report, connections, is_first
            has_uvloop = find_spec("uvloop") is not None  # not on Windows
            anyio.run(_serve, *arguments, backend_options={"use_uvloop": has_uvloop})
    return 0


def _check_workers(count: int, store: str | None, tap: int | None) -> None:
    """Raise a ``UsageError`` if so many workers cannot work."""
    if count < 1:
        raise UsageError(f"--workers must be at least 1, not {count}")
    if count > 1 and not hasattr(os, "posix_spawn"):
        raise UsageError("--workers needs a system such as Linux: start several gateways behind a proxy")
    if count > 1 and store is None:
        raise UsageError(
            "--workers needs a store that all workers share, since the next request of a conversation may come to"
            " another one: give --store as well, a SQLite file or redis://..."
        )
    if count > 1 and tap is not None:
        raise UsageError("--tap shows the requests of one process: give --workers 1, or --record DIR")


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


async def _serve(
    upstreams: Sequence[ConfiguredUpstream],
    settings: Mapping[str, Any],
    listening: socket.socket,
    report: Callable[[str], None],
    connections: ConnectionLimits,
    is_first: bool,
) -> None:
    """Serve on a socket until a signal; *settings* are arguments of ``Gateway``."""
    from streamkit.cli.terminal import OutputError
    from streamkit.cli.upstream_client import ask_over_http, list_over_http, open_client
    from streamkit.gateway import Gateway, Upstream
    from streamkit.gateway.logs import log_exchange
    from streamkit.gateway.stores.store import StoreUnavailable

    async with open_client() as client:
        asked = []
        for upstream in upstreams:
            headers, models_path = request_headers(upstream.endpoint, upstream.key), upstream.endpoint.models_path
            list_models = list_over_http(client, upstream.address + models_path, headers) if models_path else None
            asked.append(
                Upstream(
                    provider=upstream.provider,
                    ask=ask_over_http(client, upstream.address, headers),
                    endpoint=upstream.address,
                    models=upstream.models,
                    list_models=list_models,
                    first_event_timeout=upstream.first_event_timeout,
                    secrets=[upstream.key or ""],
                )
            )
        gateway = Gateway(*asked, observe=log_exchange, **settings)
        try:
            await gateway.start()
        except StoreUnavailable as problem:
            raise UsageError(f"--store {redact(settings['store'])} cannot be used: {problem.__cause__}") from None
        if is_first:
            first, *others = upstreams
            report(f"streamkit gateway: {address_of(listening)} asks {first.title}")
            with contextlib.suppress(OutputError):  # a reader may want the address alone
                for number, other in enumerate(others, 2):
                    report(f"upstream {number}, if those before it fail or name no such model: {other.title}")
                if settings["store"] is None:
                    report("a restart drops the state of open conversations: --store FILE keeps it")
        gc.set_threshold(*COLLECTIONS)
        try:
            with reloading(gateway.reload_keys if settings["keys"] is not None else None):
                await serve_until_signal(gateway, listening, report, connections)
        finally:
            await gateway.aclose()


def _models(model: str | None, pairs: list[str]) -> dict[str, str]:
    """Return the upstream's models by the client's names."""
    if model is not None:
        return {"*": model}
    models: dict[str, str] = {}
    for pair in pairs:
        name, separator, upstream = pair.partition("=")
        if not (name and separator and upstream):
            raise UsageError(f"--model-map takes CLIENT=UPSTREAM, such as 'claude-sonnet-5=gpt-5', not {pair!r}")
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


def _allow_open_files() -> None:
    """Raise the limit of open files: a response has two connections, and the usual limit is 1,024 files."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
