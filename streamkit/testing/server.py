"""The embedded server: HTTP on loopback, with every provider's wire, from one script.

It runs in a thread with its own event loop, so that the code under test may use asyncio, trio or neither. The script
is in ``script``, the requests of each wire in ``endpoints``, its responses in the providers' encoders. This module
contains the HTTP part and must not depend on a particular provider.
"""

from __future__ import annotations

import asyncio
import math
import socket
import threading
from collections.abc import Iterable
from http.client import responses as PHRASES  # noqa: N812 - a table of constants, and starlette has responses too
from types import TracebackType
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from streamkit import providers
from streamkit.errors import UnknownProvider, UsageError
from streamkit.providers.encoding import CONTENT_TYPES
from streamkit.providers.names import ProviderName
from streamkit.providers.provider import Provider
from streamkit.testing.endpoints import make_call_id, make_response_id, parse_http_request, reported_usage
from streamkit.testing.request_rules import validate_request
from streamkit.testing.script import RawBytes, Request, Script, ScriptPlayer, Stall, Status
from streamkit.testing.scripted_stream import Step, StreamRenderer, split_reads, to_json_array

try:
    import uvicorn
    from starlette import requests, responses, types
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.server import ServerState
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"streamkit.testing needs {error.name}: pip install 'streamkit[testing]'", name=error.name
    ) from None

__all__ = ["Server", "serve"]


def serve(
    script: Script, *, delta_size: int = 16, delay: float = 0.0, read_size: int | None = None, strict: bool = True
) -> Server:
    """Return a server that responds to requests with the turns of *script*, on every provider's wire.

    Use it as a context manager, with ``async with`` or with ``with``; in a fixture::

        @pytest.fixture
        def server():
            with serve([Reply(Call("get_weather", {"city": "Oslo"})), Reply("4 degrees.")]) as server:
                yield server

    A request that the real provider would reject gets status 400 and that provider's error body, and takes no turn of
    the script. The message names the place and the rule that it breaks; ``request_rules`` has the rules and their
    sources.

    Args:
        script: the turns, one for each request: a ``Reply``, a ``Status``, text, or a function of the ``Request`` that
            returns one of these. A function instead of the sequence responds to every request. The script goes on over
            all base URLs of one conversation (a client that changes the provider continues it); each conversation
            starts it anew. A request after its end gets status 500.
        delta_size: characters in one delta of text or arguments.
        delay: seconds between two chunks.
        read_size: bytes in one chunk; None: one frame in each.
        strict: whether to reject what the real provider would reject. False accepts any body, for tests that are not
            about conversations.

    Returns:
        The server, not yet started.

    Raises:
        UsageError: an item of the script is not a turn, or a size or delay is out of range.
    """
    return Server(script, delta_size=delta_size, delay=delay, read_size=read_size, strict=strict)


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
        strict: bool = True,
    ) -> None:
        if delta_size < 1 or (read_size is not None and read_size < 1):
            raise UsageError(f"delta_size and read_size must be at least 1, not {delta_size} and {read_size}")
        if not 0 <= delay < math.inf:
            raise UsageError(f"delay must be the seconds between two chunks, not {delay}")
        self.requests: list[Request] = []
        self._player = ScriptPlayer(script)
        self._delta_size, self._delay, self._read_size, self._strict = delta_size, delay, read_size, strict
        self._third_party: dict[str, Provider] = {}
        self._state = ServerState()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._stopping = False  # the block is being exited
        self._closing = False  # from here on, the server closes the connections

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
            self._third_party[resolved.name] = resolved
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
            self._serve,
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
        self._closing = True
        listener.close()
        for connection in list(self._state.connections):
            connection.transport.abort()
        if self._state.tasks:  # they end by the abort, except while a function of the script runs
            await asyncio.wait(set(self._state.tasks), timeout=1.0)
        await asyncio.sleep(0)

    # ------------------------------------------------------------ responding

    async def _serve(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        incoming = requests.Request(scope, receive)
        try:
            body = await incoming.body()
        except requests.ClientDisconnect:
            return
        prefix, _, rest = incoming.url.path.removeprefix("/").partition("/")
        name, _, conversation = prefix.partition("@")
        provider = self._provider(name)
        request = Request(
            provider=provider.name if provider else None,
            conversation=conversation,
            method=incoming.method,
            path=incoming.url.path,
            query=dict(incoming.query_params),
            headers=dict(incoming.headers),
            json=_json(body),
        )
        self.requests.append(request)
        if provider is None:
            known = ", ".join(sorted({*providers.names(), *self._third_party}))
            rejection = Status(404, f"no provider is at {request.path}: the path must begin with one of {known}")
            await _reject_request(rejection, None, request, scope, receive, send)
            return
        endpoint = provider.traits.endpoint
        parsed = parse_http_request(endpoint, request.method, f"/{rest}", request.query, request.json)
        if isinstance(parsed, Status):
            await _reject_request(parsed, provider, request, scope, receive, send)
            return
        violations = validate_request(provider, request.json, model=parsed.model) if self._strict else []
        if violations:
            await _reject_request(Status(400, violations[0].message), provider, request, scope, receive, send)
            return
        turn = await self._player.next_turn(request)
        if isinstance(turn, Status):
            await _reject_request(turn, provider, request, scope, receive, send)
            return
        if isinstance(turn, RawBytes):
            content_type = turn.content_type or CONTENT_TYPES[provider.traits.framing]
            await self._stream(
                list(split_reads([turn.data], self._read_size)), content_type, request, scope, receive, send
            )
            return
        seed = f"{provider.name}|{conversation}|{request.number}"
        renderer = StreamRenderer(
            provider,
            response_id=make_response_id(endpoint, seed),
            model=parsed.model,
            call_id=lambda index: make_call_id(endpoint, f"{seed}|{index}"),
            delta_size=self._delta_size,
            signature=provider.traits.sign_call(parsed.model, seed),
        )
        try:
            steps: Iterable[Step] = renderer.steps(turn, reported_usage(provider, request.json, turn))
        except Exception as error:
            # The client gets the message, and the server continues.
            message = f"{provider.name} cannot send this reply: {type(error).__name__}: {error}"
            await _reject_request(Status(500, message, retry=False), provider, request, scope, receive, send)
            return
        content_type = CONTENT_TYPES[provider.traits.framing]
        if parsed.as_array:
            steps, content_type = to_json_array(steps), CONTENT_TYPES["json_array"]
        await self._stream(list(split_reads(steps, self._read_size)), content_type, request, scope, receive, send)

    def _provider(self, name: str) -> Provider | None:
        if name in self._third_party:
            return self._third_party[name]
        try:
            return providers.get(name)
        except UnknownProvider:
            return None

    async def _stream(
        self,
        steps: list[Step],
        content_type: str,
        request: Request,
        scope: types.Scope,
        receive: types.Receive,
        send: types.Send,
    ) -> None:
        request.status = 200
        headers = [(b"content-type", content_type.encode()), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            for remaining, step in zip(range(len(steps) - 1, -1, -1), steps, strict=True):
                pause = self._delay if remaining else 0.0
                if isinstance(step, bytes):
                    await send({"type": "http.response.body", "body": step, "more_body": True})
                elif isinstance(step, Stall):
                    pause = step.seconds
                else:
                    self._disconnect(scope)
                    await disconnected
                    return
                # Yield also without a pause, so that the loop can read the end of the connection.
                await asyncio.wait({disconnected}, timeout=pause) if pause else await asyncio.sleep(0)
                if disconnected.done():
                    # A client that received everything, with the wire's terminator, may close the connection.
                    request.disconnected = remaining > 0 and not self._closing
                    return
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            disconnected.cancel()

    def _disconnect(self, scope: types.Scope) -> None:
        """Close the connection of a request without ending its response."""
        for connection in list(self._state.connections):
            if isinstance(connection, H11Protocol) and connection.client == scope["client"]:
                connection.transport.close()


async def _wait_for_disconnect(receive: types.Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _reject_request(
    rejection: Status,
    provider: Provider | None,
    request: Request,
    scope: types.Scope,
    receive: types.Receive,
    send: types.Send,
) -> None:
    """Send an error response in the provider's format."""
    request.status = rejection.status
    message = rejection.message or PHRASES.get(rejection.status, f"HTTP status {rejection.status}")
    body: dict[str, Any] = {"error": {"message": message}}
    headers = {}
    if provider is not None:
        body = provider.error_body(rejection.status, message, rejection.code)
        endpoint = provider.traits.endpoint
        name = rejection.code or endpoint.error_names.get(rejection.status)
        if endpoint.error_name_header is not None and name is not None:
            headers[endpoint.error_name_header] = name
    if rejection.retry_after is not None:
        headers["retry-after"] = f"{rejection.retry_after:g}"
    if not rejection.retry:
        headers["x-should-retry"] = "false"
    await responses.JSONResponse(body, rejection.status, headers)(scope, receive, send)


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (RecursionError, ValueError):
        return None
