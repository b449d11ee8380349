"""``PassThrough``: an ASGI application that passes requests to one upstream and its responses back, both unchanged.

Only what belongs to a single connection is replaced: the host, and the headers that RFC 9110 (section 7.6.1) lists as
hop-by-hop. Keys pass, and are masked in the copies, which are decompressed as their bytes arrive. The application does
no HTTP of its own: ``ask`` opens the response, as for the gateway.

What a web page of another site may have sent does not pass. The upstream cannot refuse it: the name by which the page
has asked, which a local server checks (https://nvd.nist.gov/vuln/detail/CVE-2024-28224), is replaced.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from streamkit import providers
from streamkit.errors import UsageError
from streamkit.gateway.client import is_from_another_site, is_public_name
from streamkit.gateway.tap.display_text import clean
from streamkit.gateway.tap.observer import ExchangeCopy, ExchangeObserver
from streamkit.reading.source_failure import describe_with_cause, is_io_failure

__all__ = [
    "AskUnchanged",
    "PassThrough",
    "PassedRequest",
    "PassedResponse",
    "decompressor",
]


#: For gzip's header or zlib's, whichever there is.
_ANY_HEADER = zlib.MAX_WBITS | 32


def decompressor(encoding: str) -> Callable[[bytes], bytes] | None:
    """Return the function that decompresses the next bytes of a body.

    Args:
        encoding: the header ``content-encoding``.

    Returns:
        The function, which raises an exception of its library for invalid bytes; None if the encoding cannot be read
        here: ``br`` needs the package ``brotli``, ``zstd`` the package ``zstandard``, and several at once cannot be.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return bytes
    if name in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(_ANY_HEADER).decompress
    if name == "br" and find_spec("brotli") is not None:
        process: Callable[[bytes], bytes] = import_module("brotli").Decompressor().process
        return process
    if name == "zstd" and find_spec("zstandard") is not None:
        decompress: Callable[[bytes], bytes] = import_module("zstandard").ZstdDecompressor().decompressobj().decompress
        return decompress
    return None


_MOST_BODY = 256 * 1024 * 1024
#: Headers of one connection, which are not passed on.
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
_KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie")
_KEY_PARAMETERS = ("key", "api_key", "api-key")
_ANOTHER_SITE = (
    "streamkit tap: a web page of another site cannot use this tap. A proxy or a tunnel in front of it has to send the"
    " header 'Host: localhost'"
)
Headers: TypeAlias = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedRequest:
    """A request as it goes to the upstream.

    Attributes:
        url: the whole address, with the query.
        headers: the client's headers, in order.
        body: the client's body; None if it sent none.
    """

    method: str
    url: str
    headers: Headers
    body: bytes | None


class PassedResponse(Protocol):
    """The response of the upstream: that of httpx is one."""

    status_code: int

    @property
    def headers(self) -> Any:
        """The headers; their ``raw`` has names and values unchanged, in order."""

    def aiter_raw(self) -> Any:
        """Return an asynchronous iterator over the bytes of the body as they came, still compressed."""


#: Opens the response to a request.
AskUnchanged: TypeAlias = Callable[[PassedRequest], AbstractAsyncContextManager[PassedResponse]]


class PassThrough:
    """The ASGI application.

    Args:
        provider: the name of the provider whose wire the upstream speaks.
        address: the base URL of the upstream, in place of which clients have the address of this application.
        ask: opens the response to a request. Transport errors that it raises become a response with status 502.
        observer: gets the copies.
    """

    def __init__(self, provider: str, address: str, ask: AskUnchanged, observer: ExchangeObserver) -> None:
        self._provider = provider
        self._address = address.rstrip("/")
        self._ask = ask
        self._observer = observer
        self._route = re.compile(providers.get(provider).traits.endpoint.route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise UsageError(f"a tap passes HTTP, not {scope['type']!r}")
        request = Request(scope, receive)
        if _may_be_of_another_site(request):
            await PlainTextResponse(_ANOTHER_SITE, 403)(scope, receive, send)
            return
        try:
            body = await _read_body(request)
        except ClientDisconnect:
            return
        if body is None:
            await PlainTextResponse(f"the body has more than {_MOST_BODY} bytes", 413)(scope, receive, send)
            return
        raw_path = request.scope.get("raw_path") or request.url.path.encode()
        query = request.scope.get("query_string", b"")
        passed = PassedRequest(
            method=request.method,
            url=self._address + raw_path.decode("latin-1") + ("?" + query.decode("latin-1") if query else ""),
            headers=_end_to_end(request.headers.raw, {b"host"}),
            body=body if body or "content-length" in request.headers else None,
        )
        copy = self._begin(request, body)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch_client, request, copy, tasks.cancel_scope)
            await self._pass(request, passed, copy, send)
            tasks.cancel_scope.cancel()

    def _begin(self, request: Request, body: bytes) -> ExchangeCopy:
        """Return the copy of an exchange."""
        path = request.url.path
        own = urlsplit(self._address).path + path
        match = self._route.fullmatch(path) or self._route.fullmatch(own)
        secrets = _secrets(request)
        query = request.url.query
        return self._observer.begin(
            secrets=secrets,
            method=request.method,
            path=clean(path + (f"?{query}" if query else ""), secrets),
            client=self._provider,
            provider=self._provider if match is not None and request.method == "POST" else None,
            address=self._address,
            model=match.groupdict().get("model") if match is not None else None,
            request=body or None,
        )

    async def _pass(self, request: Request, passed: PassedRequest, copy: ExchangeCopy, send: Send) -> None:
        """Send the upstream's response to the client."""
        has_started = False
        try:
            async with self._ask(passed) as response:
                _check_status(response.status_code)
                headers = _end_to_end(response.headers.raw)
                shown = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
                copy.respond(response.status_code, shown)
                copied = _CopiedBody(copy, shown)
                has_started = True
                await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
                async for part in response.aiter_raw():
                    copied.write(part)
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                copy.end()  # before the last part, after which servers report a disconnected client
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except Exception as error:
            copy.end(error=describe_with_cause(error))
            if not is_io_failure(error):
                raise
            if has_started:
                return  # the server closes the connection of an incomplete response, so the client sees the failure too
            # The text may name the host of the upstream, which other computers that use the tap need not learn.
            reason = f"({type(error).__name__}); the page of the tap has the reason"
            reply = PlainTextResponse(f"streamkit tap: the upstream cannot be reached {reason}", 502)
            await reply(request.scope, request.receive, send)
        finally:
            copy.end(disconnected=True)  # if nothing above has ended it, the client has


def _may_be_of_another_site(request: Request) -> bool:
    """Return whether a web page of another site may have sent a request.

    A page's GET of its own site has no ``Origin``, so that after DNS rebinding only the ``Host`` shows it. That is no
    public name where this computer itself asks; from another computer it may be.
    """
    address = (request.scope.get("server") or ("",))[0]
    if (address == "::1" or address.startswith("127.")) and is_public_name(request.headers.get("host", "").lower()):
        return True
    return request.method not in ("GET", "HEAD", "OPTIONS") and is_from_another_site(request.headers)


def _check_status(status: int) -> None:
    """Raise ConnectionError for a status that cannot be sent on: uvicorn has no line for it."""
    if not 100 <= status < 600:
        raise ConnectionError(f"the status {status} is none of HTTP")


class _CopiedBody:
    """The body of a response, decompressed for its copy. It never raises."""

    def __init__(self, copy: ExchangeCopy, headers: Mapping[str, str]) -> None:
        self._copy = copy
        self._encoding = headers.get("content-encoding", "")
        self._decompress = decompressor(self._encoding)
        if self._decompress is None:
            copy.note(f"the response is compressed with {self._encoding!r}, which cannot be read here: it is not shown")

    def write(self, data: bytes) -> None:
        """Copy the next bytes of the body."""
        if self._decompress is None:
            return
        try:
            data = self._decompress(data)
        except Exception as error:  # of zlib or another library, for bytes that are not what the header says
            self._decompress = None
            self._copy.note(f"the response is not valid {self._encoding!r} ({error}): its end is not shown")
            return
        if data:
            self._copy.write(data)


async def _read_body(request: Request) -> bytes | None:
    """Return the body of a request; None if it is too large."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > _MOST_BODY:
            return None
    return bytes(data)


async def _watch_client(request: Request, copy: ExchangeCopy, scope: anyio.CancelScope) -> None:
    """Cancel the service when the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    copy.end(disconnected=True)
    scope.cancel()


def _end_to_end(headers: Iterable[tuple[bytes, bytes]], left_out: Iterable[bytes] = ()) -> Headers:
    """Return headers without those of one connection: the known ones, and those that ``Connection`` names."""
    headers = list(headers)
    named = [value for name, value in headers if name.lower() == b"connection"]
    excluded = {*_HOP_BY_HOP, *left_out, *(part.strip().lower() for value in named for part in value.split(b","))}
    return [(name, value) for name, value in headers if name.lower() not in excluded]


def _secrets(request: Request) -> list[str]:
    """Return the keys that a request has in its headers and in its query."""
    values = [value for name in _KEY_HEADERS if (value := request.headers.get(name))]
    values += [value for name in _KEY_PARAMETERS if (value := request.query_params.get(name))]
    return [*values, *(value.partition(" ")[2].strip() for value in values)]
