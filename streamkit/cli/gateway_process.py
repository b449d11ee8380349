"""One process that serves ``streamkit gateway``: its settings, its upstreams over HTTP, and its end."""

from __future__ import annotations

import contextlib
import gc
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamkit.cli.serving import address_of, reloading, serve_until_signal
from streamkit.errors import UsageError
from streamkit.values.redaction import redact

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from streamkit.cli.joined_head import ConnectionLimits
    from streamkit.gateway import GatewayLimits, Observer, Upstream

__all__ = ["COLLECTIONS", "GatewaySettings", "allow_open_files", "serve_gateway"]

#: The thresholds of Python's garbage collection. By the usual ones a body of 100,000 messages has 16 full collections,
#: each of which stops all requests, the last one for 1.7 s; together they take more than half of its time.
COLLECTIONS = (10_000, 20, 50)

_FILES = 8192  # enough for the most responses that the gateway serves at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """What the command line and the environment say about one gateway; of several workers each has the same."""

    create_upstreams: Callable[[ClientSession], Sequence[Upstream]]
    key: str | None
    keys: str | None
    metrics: bool
    state_keys: Sequence[str]
    limits: GatewayLimits
    connections: ConnectionLimits
    store: str | None


async def serve_gateway(
    settings: GatewaySettings,
    listening: socket.socket,
    observer: Observer | None,
    report: Callable[[str], None],
    is_first: bool,
) -> None:
    """Serve on a socket until a signal."""
    from streamkit.cli.terminal import OutputError
    from streamkit.cli.upstream_client import open_client
    from streamkit.gateway import Gateway
    from streamkit.gateway.logs import log_exchange
    from streamkit.gateway.store import StoreUnavailable

    store = settings.store
    async with open_client() as client:
        upstreams = settings.create_upstreams(client)
        gateway = Gateway(
            *upstreams,
            key=settings.key,
            keys=settings.keys,
            metrics=settings.metrics,
            limits=settings.limits,
            observe=log_exchange,
            observer=observer,
            state_key=settings.state_keys or (None if store is not None else secrets.token_bytes(32)),
            store=store,
        )
        try:
            await gateway.start()
        except StoreUnavailable as problem:
            raise UsageError(f"--store {redact(store or '')} cannot be used: {problem.__cause__}") from None
        first, *others = [f"{upstream.provider} at {upstream.endpoint}" for upstream in upstreams]
        if is_first:
            report(f"streamkit gateway: {address_of(listening)} asks {first}")
            with contextlib.suppress(OutputError):  # a reader may want the address alone
                for number, other in enumerate(others, 2):
                    report(f"upstream {number}, if those before it fail: {other}")
                if store is None:
                    report("a restart drops the state of open conversations: --store FILE keeps it")
        gc.set_threshold(*COLLECTIONS)
        try:
            with reloading(gateway.reload_keys if settings.keys is not None else None):
                await serve_until_signal(gateway, listening, report, settings.connections)
        finally:
            await gateway.aclose()


def allow_open_files() -> None:
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
