"""The embedded server: real HTTP on loopback that speaks every provider's wire from one script.

It runs in a thread with an event loop of its own, so that the code under test may use asyncio, trio or neither. What
is said stands in ``script``, how each wire is asked in ``wires``, and how it answers in the providers' ``emit``; this
file knows HTTP and no vendor.
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
from streamkit.calls import Usage
from streamkit.errors import UnknownProvider, UsageError
from streamkit.providers.provider import Provider
from streamkit.testing.endpoints import make_call_id, make_response_id, parse_http_request
from streamkit.testing.request_rules import validate_request
from streamkit.testing.script import Reply, Request, Script, ScriptPlayer, Stall, Status
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

_CONTENT_TYPES = {
    "sse": "text/event-stream",
    "ndjson": "application/x-ndjson",
    "event_stream": "application/vnd.amazon.eventstream",
    "json_array": "application/json",
}


def serve(
    script: Script, *, delta_size: int = 16, delay: float = 0.0, read_size: int | None = None, strict: bool = True
) -> Server:
    """A server that answers the requests of one conversation with the turns of *script*, on every provider's wire.

    Use it as a context manager, with ``async with`` or with ``with``; in a fixture::

        @pytest.fixture
        def server():
            with serve([Reply(Call("get_weather", {"city": "Oslo"})), Reply("4 degrees.")]) as server:
                yield server

    A request that the real provider would refuse is refused here, with status 400 and that provider's error body, and
    takes no turn of the script. The message says where the fault is and which rule it breaks; ``legality`` has the
    rules and their sources.

    Args:
        script: the turns, one a request: a ``Reply``, a ``Status``, text, or a function of the ``Request`` that gives
            one of these. A function in place of the sequence answers every request. Each base URL walks the script on
            its own, from its start; a request beyond the end is answered with status 500.
        piece: characters in one delta of text or arguments.
        pace: seconds between two chunks.
        read_size: bytes in one chunk; None: one frame in each.
        strict: refuse what the real provider would. False takes any body, for tests that are not about conversations.

    Raises:
        UsageError: something in the script is no turn, or a size makes no sense.
    """
    return Server(script, delta_size=delta_size, delay=delay, read_size=read_size, strict=strict)


class Server:
    """The embedded server; ``serve`` makes one.

    Attributes:
        requests: every request so far, in the order in which they came.
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
            raise UsageError(f"piece and read_size are at least 1, not {delta_size} and {read_size}")
        if not 0 <= delay < math.inf:
            raise UsageError(f"pace is the seconds between two chunks, not {delay}")
        self.requests: list[Request] = []
        self._walk = ScriptPlayer(script)
        self._piece, self._pace, self._read_size, self._strict = delta_size, delay, read_size, strict
        self._own: dict[str, Provider] = {}
        self._state = ServerState()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._stopping = False  # the block is being left
        self._closing = False  # connections are closed by us, no longer by those who left

    # ------------------------------------------------------------ addresses

    @property
    def url(self) -> str:
        """The address of the server, such as ``http://127.0.0.1:40123``.

        Raises:
            UsageError: the server is not running.
        """
        if self._socket is None or self._stopping:
            raise UsageError("the server runs only inside its `with` or `async with` block")
        return "http://{}:{}".format(*self._socket.getsockname()[:2])

    def base_url(self, provider: str | Provider, conversation: str = "") -> str:
        """What the provider's own SDK takes as its base URL (for Azure: as its endpoint).

        Args:
            provider: its name, or the object of one of your own.
            conversation: any word of letters and digits; each has its own base URL and walks the script on its own.

        Raises:
            UnknownProvider: no provider has this name.
            UsageError: the server is not running, or the conversation's name does not fit into a URL.
        """
        found = providers.get(provider)
        if found is provider:
            self._own[found.name] = found
        if conversation and not (conversation.isascii() and conversation.replace("-", "").replace("_", "").isalnum()):
            raise UsageError(f"a conversation is named by letters, digits, - and _, not {conversation!r}")
        prefix = f"{found.name}@{conversation}" if conversation else found.name
        return f"{self.url}/{prefix}{found.traits.endpoint.sdk_base_path}"

    # ------------------------------------------------------------ running

    def __enter__(self) -> Server:
        self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    async def __aenter__(self) -> Server:
        # Shielded, so that a cancellation comes inside the block and the server is ended by its exit.
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
        # Its connections inherit it; asyncio sets it only for sockets that name their protocol. Without it the end of
        # each answer waits some 40 ms for the client's delayed acknowledgement.
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
        # Whoever hung up just before is seen as such: the loop reads what the kernel holds before the rest is closed.
        for _ in range(10):
            await asyncio.sleep(0)
        self._closing = True
        listener.close()
        for connection in list(self._state.connections):
            connection.transport.abort()
        if self._state.tasks:  # they hear of it and end; only a function of the script can still keep one
            await asyncio.wait(set(self._state.tasks), timeout=1.0)
        await asyncio.sleep(0)

    # ------------------------------------------------------------ answering

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
            known = ", ".join(sorted({*providers.names(), *self._own}))
            refused = Status(404, f"nobody is served at {request.path}: the path begins with one of {known}")
            await _reject_request(refused, None, request, scope, receive, send)
            return
        endpoint = provider.traits.endpoint
        asked = parse_http_request(endpoint, request.method, f"/{rest}", request.query, request.json)
        if isinstance(asked, Status):
            await _reject_request(asked, provider, request, scope, receive, send)
            return
        faults = validate_request(provider, request.json, model=asked.model) if self._strict else []
        if faults:
            await _reject_request(Status(400, faults[0].message), provider, request, scope, receive, send)
            return
        answer = await self._walk.answer(request)
        if isinstance(answer, Status):
            await _reject_request(answer, provider, request, scope, receive, send)
            return
        seed = f"{provider.name}|{conversation}|{request.number}"
        voice = StreamRenderer(
            provider,
            response_id=make_response_id(endpoint, seed),
            model=asked.model,
            call_id=lambda index: make_call_id(endpoint, f"{seed}|{index}"),
            delta_size=self._piece,
            signature=provider.traits.sign_call(asked.model, seed),
        )
        try:
            steps: Iterable[Step] = voice.steps(answer, _estimate(body, answer))
        except Exception as error:
            # What this provider cannot say; the client is told, and the server goes on.
            why = f"{provider.name} cannot say this reply: {type(error).__name__}: {error}"
            await _reject_request(Status(500, why, retry=False), provider, request, scope, receive, send)
            return
        kind = _CONTENT_TYPES[provider.traits.framing]
        if asked.as_array:
            steps, kind = to_json_array(steps), _CONTENT_TYPES["json_array"]
        await self._stream(list(split_reads(steps, self._read_size)), kind, request, scope, receive, send)

    def _provider(self, name: str) -> Provider | None:
        if name in self._own:
            return self._own[name]
        try:
            return providers.get(name)
        except UnknownProvider:
            return None

    async def _stream(
        self,
        steps: list[Step],
        kind: str,
        request: Request,
        scope: types.Scope,
        receive: types.Receive,
        send: types.Send,
    ) -> None:
        request.status = 200
        headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.ensure_future(_hung_up(receive))
        try:
            for left, step in zip(range(len(steps) - 1, -1, -1), steps, strict=True):
                pause = self._pace if left else 0.0
                if isinstance(step, bytes):
                    await send({"type": "http.response.body", "body": step, "more_body": True})
                elif isinstance(step, Stall):
                    pause = step.seconds
                else:
                    self._disconnect(scope)
                    await gone
                    return
                # Also without a pause: the loop has to hear of a client that left.
                await asyncio.wait({gone}, timeout=pause) if pause else await asyncio.sleep(0)
                if gone.done():
                    # Who has everything may leave (the wire's own terminator came) without missing anything.
                    request.disconnected = left > 0 and not self._closing
                    return
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()

    def _disconnect(self, scope: types.Scope) -> None:
        """Close the connection of a request without ending its answer."""
        for connection in list(self._state.connections):
            if isinstance(connection, H11Protocol) and connection.client == scope["client"]:
                connection.transport.close()


async def _hung_up(receive: types.Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _reject_request(
    refusal: Status,
    provider: Provider | None,
    request: Request,
    scope: types.Scope,
    receive: types.Receive,
    send: types.Send,
) -> None:
    request.status = refusal.status
    message = refusal.message or PHRASES.get(refusal.status, f"HTTP status {refusal.status}")
    body = provider.error_body(refusal.status, message) if provider else {"error": {"message": message}}
    headers = {}
    if refusal.retry_after is not None:
        headers["retry-after"] = f"{refusal.retry_after:g}"
    if not refusal.retry:
        headers["x-should-retry"] = "false"
    await responses.JSONResponse(body, refusal.status, headers)(scope, receive, send)


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (RecursionError, ValueError):
        return None


def _estimate(body: bytes, reply: Reply) -> Usage:
    """About a token for four characters, so that those who count find something to count."""
    said = sum(len(str(item)) for item in reply.items)
    return Usage(input_tokens=len(body) // 4 + 1, output_tokens=said // 4 + 1)
