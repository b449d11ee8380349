"""The embedded server: HTTP on loopback, with every provider's wire, from one script.

It runs in a thread with its own event loop, so that the code under test may use asyncio, trio or neither. The responses
are in ``application``; this module has the address, the start and the end of the server.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Literal

import anyio
import anyio.to_thread

from streamkit import providers
from streamkit.errors import UsageError
from streamkit.providers.provider import Provider
from streamkit.providers.registry import ProviderName
from streamkit.testing.script import Request, Script, check_speed
from streamkit.values.distribution import missing_package

try:
    import uvicorn
    from starlette import types
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.server import ServerState

    from streamkit.testing.application import ScriptedApplication
except ModuleNotFoundError as _error:
    raise missing_package("streamkit.testing", _error, "testing") from None

__all__ = ["Server", "serve"]


def serve(
    script: Script,
    *,
    delta_size: int = 16,
    delay: float = 0.0,
    read_size: int | None = None,
    strict: bool | Literal["conversation"] = True,
    key: str | None = None,
    models: Sequence[str] | None = None,
) -> Server:
    """Return a server that responds to requests with the turns of *script*, on every provider's wire.

    A request that asks for a stream gets one, any other one complete body, as the provider decides it.

    Use it as a context manager, with ``async with`` or with ``with``; in a fixture::

        @pytest.fixture
        def server():
            with serve([Reply(Call("get_weather", {"city": "Oslo"})), Reply("4 degrees.")]) as server:
                yield server

    A count of tokens is an estimate, of four characters each. Embeddings are refused: a script has none.

    A request that the real provider would reject gets status 400 and that provider's error body, and takes no turn of
    the script. The message names the place and the rule that it breaks; ``list_rules`` lists the rules with
    their sources.

    Args:
        script: the turns, one for each request: a ``Reply``, ``Recorded``, a ``Status``, text, or a function of the
            ``Request`` that returns one of these. An ``Expect`` before a turn checks its request. A function instead of
            the sequence responds to every request. The script goes on over all base URLs of one conversation (a client
            that changes the provider continues it); each conversation starts it anew. A request after its end gets
            status 500.
        delta_size: characters in one delta of text or arguments.
        delay: seconds between two chunks.
        read_size: bytes in one chunk; None: one frame in each.
        strict: what is rejected of what the real provider would reject: the whole body is checked with True (fields,
            types, limits, tools, conversation), the calls, results and messages alone with "conversation", nothing
            with False.
        key: the only key that is accepted: a request with another one, or with none, gets status 401. None accepts all.
        models: the models that clients can list and ask; a request for another one gets status 404. None accepts every
            name, and lists ``scripted``.

    Returns:
        The server, not yet started.

    Raises:
        UsageError: an item of the script is not a turn, or a size or delay is out of range.
    """
    return Server(
        script, delta_size=delta_size, delay=delay, read_size=read_size, strict=strict, key=key, models=models
    )


class Server:
    """The embedded server; ``serve`` makes one.

    Attributes:
        requests: all requests, in the order in which they arrived.
    """

    def __init__(
        self,
        script: Script,
        *,
        delta_size: int = 16,
        delay: float = 0.0,
        read_size: int | None = None,
        strict: bool | Literal["conversation"] = True,
        key: str | None = None,
        models: Sequence[str] | None = None,
    ) -> None:
        if read_size is not None and read_size < 1:
            raise UsageError(f"read_size must be a number of bytes, at least 1, not {read_size}")
        check_speed(delta_size, delay)
        self._application = ScriptedApplication(
            script,
            delta_size=delta_size,
            delay=delay,
            read_size=read_size,
            strict=strict,
            key=key,
            models=models,
            disconnect=self._disconnect,
        )
        self.requests: list[Request] = self._application.requests
        self._state = ServerState()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._stopping = False  # the block is being exited

    # ------------------------------------------------------------ addresses

    @property
    def url(self) -> str:
        """The address of the server, for example ``http://127.0.0.1:40123``.

        Raises:
            UsageError: the server is not running.
        """
        if self._socket is None or self._stopping:
            raise UsageError("the server runs only inside its `with` or `async with` block")
        return "http://{}:{}".format(*self._socket.getsockname()[:2])

    def base_url(self, provider: ProviderName | str | Provider, conversation: str = "") -> str:
        """Return the base URL for the provider's own SDK (for Azure: its endpoint).

        Args:
            provider: its name, or the object of a third-party provider.
            conversation: a name of letters, digits, ``-`` and ``_``; each starts the script anew, and continues it on
                the base URLs of all providers.

        Raises:
            UnknownProvider: no provider has this name.
            UsageError: the server is not running, or the conversation has another name.
        """
        resolved = providers.get(provider)
        if resolved is provider:
            self._application.third_party[resolved.name] = resolved
        if conversation and not (conversation.isascii() and conversation.replace("-", "").replace("_", "").isalnum()):
            raise UsageError(f"the name of a conversation has only letters, digits, - and _, not {conversation!r}")
        prefix = f"{resolved.name}@{conversation}" if conversation else resolved.name
        return f"{self.url}/{prefix}{resolved.traits.endpoint.sdk_base_path}"

    # ------------------------------------------------------------ running

    def __enter__(self) -> Server:
        self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()
        self._check_expectations(error)

    async def __aenter__(self) -> Server:
        # Shielded, so that a cancellation takes effect inside the block, whose exit ends the server.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._end)
        self._check_expectations(error)

    def _check_expectations(self, error: BaseException | None) -> None:
        """Raise an AssertionError for requests without what the script expects, unless the block raised already."""
        if self._application.mismatches and error is None:
            raise AssertionError("; ".join(self._application.mismatches))

    def _start(self) -> None:
        if self._thread is not None:
            raise UsageError("a server runs once; make another with serve()")
        listening = self._socket = socket.create_server(("127.0.0.1", 0))
        # Connections inherit this option; asyncio sets it only for sockets that name their protocol. Without it, the
        # end of each response waits about 40 ms for the client's delayed acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(listening, ready)), name="streamkit.testing", daemon=True
        )
        self._thread.start()
        ready.wait()

    def _end(self) -> None:
        self._stopping = True
        if self._loop is not None and self._stop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    async def _run(self, listening: socket.socket, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        config = uvicorn.Config(
            self._application,
            http=H11Protocol,
            ws="none",
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
        )
        try:
            config.load()
            listener = await self._loop.create_server(
                lambda: H11Protocol(config=config, server_state=self._state, app_state={}), sock=listening
            )
        finally:
            ready.set()
        await self._stop.wait()
        # Let the loop read what the kernel has received: a client that disconnected before is then recorded as such.
        for _ in range(10):
            await asyncio.sleep(0)
        self._application.is_closing = True
        listener.close()
        for connection in list(self._state.connections):
            connection.transport.abort()
        if self._state.tasks:  # they end by the abort, except while a function of the script runs
            await asyncio.wait(set(self._state.tasks), timeout=1.0)
        await asyncio.sleep(0)

    def _disconnect(self, scope: types.Scope) -> None:
        """Close the connection of a request without ending its response."""
        for connection in list(self._state.connections):
            if isinstance(connection, H11Protocol) and connection.client == scope["client"]:
                connection.transport.close()
