"""The HTTP client of ``streamkit gateway``: aiohttp, which has a compiled parser of HTTP.

With it a frame costs the gateway a half (read by itself) to a quarter (read with others) of what it costs with httpx:
``python -m benchmarks gateway``. httpx gives the certificates, so that all commands trust the same ones.

Nothing of a request waits for a thread: the proxies of the environment are read at the start, not by aiohttp's
``trust_env``, which reads them and ``~/.netrc`` in a thread at each request, and fails if that file has a password for
the host of a request with a key (https://docs.aiohttp.org/en/stable/client_reference.html, "trust_env").
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import aiohttp
import httpx
import msgspec
from yarl import URL

from streamkit.errors import UsageError
from streamkit.values.redaction import redact

if TYPE_CHECKING:
    from streamkit.gateway import Ask, UpstreamRequest

__all__ = ["UpstreamResponse", "ask_over_http", "list_over_http", "open_client"]

_CONNECTING = 30.0  # seconds
_SILENCE = 600.0  # seconds; a model may think for minutes before the first byte
_AT_ONCE = 1.0  # seconds in which a connection fails that the server had closed
_LONGEST_HEADER = 65_536  # bytes; aiohttp's own limit is 8,190, which a content security policy can exceed


class UpstreamResponse:
    """A response of aiohttp, which is open, as `streamkit.read` takes it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._content = response.content
        self.status_code: int = response.status  # the HTTP status
        self.headers: Mapping[str, str] = response.headers  # the headers; the case of their names does not matter

    async def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        """Yield the parts of the body, decompressed, as they arrive.

        It is a generator, which `streamkit.read` reads to its end, so that the connection can serve the next request.
        """
        event_loop = asyncio.get_running_loop()
        silence = _SilenceTimer(event_loop, self._content)
        get_time, readany = event_loop.time, self._content.readany
        try:
            while True:
                silence.waits_since = get_time()
                part = await readany()
                silence.waits_since = None
                if not part:
                    break
                yield part
        except aiohttp.ClientPayloadError:  # its text is about HTTP ("TransferEncodingError: 400")
            raise ConnectionError("the connection broke before the end of the response") from None
        finally:
            silence.close()


class _SilenceTimer:
    """The time limit of the waits for the parts of one body: one timer that no part moves.

    aiohttp's ``sock_read`` makes a new timer for each part.

    Attributes:
        waits_since: when the present wait began; None if there is none.
    """

    def __init__(self, event_loop: asyncio.AbstractEventLoop, content: aiohttp.StreamReader) -> None:
        self._event_loop = event_loop
        self._content = content
        self._handle = event_loop.call_later(_SILENCE, self._check)
        self.waits_since: float | None = None

    def _check(self) -> None:
        """Fail the body if a part has been waited for too long, else check again when that can be."""
        now = self._event_loop.time()
        since = now if self.waits_since is None else self.waits_since
        if now - since >= _SILENCE:
            self._content.set_exception(_silence_error())
        else:
            self._handle = self._event_loop.call_at(since + _SILENCE, self._check)

    def close(self) -> None:
        """Stop the timer."""
        self._handle.cancel()


#: Whether the last connection of this task's requests had served a request before.
_is_kept = ContextVar("_is_kept", default=False)


class _Connector(aiohttp.TCPConnector):
    """A connector without a limit that records whether a connection has served a request before (``_is_kept``).

    aiohttp's traces say it too, and make a dozen objects for a request.
    """

    def __init__(self) -> None:
        super().__init__(limit=0, ssl=httpx.create_ssl_context())
        self._known: WeakSet[Any] = WeakSet()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's
    ) -> aiohttp.connector.Connection:
        connection = await super().connect(req, traces, timeout)
        is_kept = connection.protocol in self._known
        if not is_kept:
            self._known.add(connection.protocol)
        _is_kept.set(is_kept)
        return connection


def open_client() -> aiohttp.ClientSession:
    """Return a client without a limit of connections, because the gateway limits its requests.

    It keeps no cookies: those of one client's request must not go up with another one's.
    """
    return aiohttp.ClientSession(
        connector=_Connector(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECTING),
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=_LONGEST_HEADER,
        max_field_size=_LONGEST_HEADER,
    )


def ask_over_http(client: aiohttp.ClientSession, address: str, headers: Mapping[str, str]) -> Ask:
    """Return the function that asks the upstream of an address (the base URL), with headers of every request (the key).

    Raises:
        UsageError: the proxy that the environment names for the address cannot be used.
    """
    proxy = _find_proxy(URL(address))

    async def post(request: UpstreamRequest) -> aiohttp.ClientResponse:
        get_time = asyncio.get_running_loop().time
        try:  # in a tenth of the time of ``json.dumps``: the body of a coding client has hundreds of kilobytes
            body = msgspec.json.encode(request.body)
        except UnicodeEncodeError:  # half of a surrogate pair, which ``json.dumps`` escapes
            body = json.dumps(request.body, separators=(",", ":")).encode()
        while True:
            _is_kept.set(False)
            started = get_time()
            try:
                return await client.post(
                    URL(address + request.path, encoded=True),  # the path is quoted: a model's name may contain "%3A"
                    data=body,
                    headers={"content-type": "application/json", **request.headers, **headers},
                    allow_redirects=False,
                    proxy=proxy,
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # The server closed a kept connection while the request was on its way: uvicorn and Node do after 5
                # seconds of silence. Later it may have read the request, whose answer would be paid twice.
                if not _is_kept.get() or get_time() - started > _AT_ONCE:
                    raise
            except aiohttp.ClientResponseError as error:
                # aiohttp gives what is no HTTP response the status 400. Taken for the server's, it would be an invalid
                # request, for which no other upstream is asked.
                raise ConnectionError(_describe_no_response(error)) from None

    return partial(_Asking, post)


def list_over_http(
    client: aiohttp.ClientSession, address: str, headers: Mapping[str, str]
) -> Callable[[], Awaitable[list[str]]]:
    """Return the function that lists the models of a server at the address of its list."""
    url = URL(address, encoded=True)
    proxy = _find_proxy(url)

    async def list_models() -> list[str]:
        async with client.get(
            url, headers=headers, allow_redirects=False, proxy=proxy, raise_for_status=True
        ) as response:
            listed = await response.json(content_type=None)
        entries = listed.get("data", listed.get("models"))
        names = [each.get("id", each.get("model", each.get("name"))) for each in entries]
        return [name.removeprefix("models/") for name in names]

    return list_models


class _Asking:
    """The opening of one response, within a time limit; a class costs less than a generator's context manager."""

    __slots__ = ("_post", "_request", "_response")

    def __init__(
        self, post: Callable[[UpstreamRequest], Awaitable[aiohttp.ClientResponse]], request: UpstreamRequest
    ) -> None:
        self._post = post
        self._request = request

    async def __aenter__(self) -> UpstreamResponse:
        try:
            async with asyncio.timeout(_SILENCE) as silence:
                self._response = await self._post(self._request)
        except TimeoutError as error:
            raise _silence_error() if silence.expired() else error from None
        return UpstreamResponse(self._response)

    async def __aexit__(self, *raised: Any) -> None:
        await self._response.__aexit__(*raised)


def _describe_no_response(error: aiohttp.ClientResponseError) -> str:
    """Return why a request has no response, though the server or the proxy sent something."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy refused the connection: {error.status} {error.message}"
    cause: BaseException | None = error
    while cause is not None and not getattr(cause, "message", ""):  # aiohttp 3.10.0 has it only in the cause
        cause = cause.__cause__
    reason = str(getattr(cause, "message", "") or "it cannot be parsed").strip().partition("\n")[0].rstrip(":")
    return f"the server's response is not valid HTTP, check the base URL: {reason}"


def _silence_error() -> aiohttp.SocketTimeoutError:
    return aiohttp.SocketTimeoutError(f"nothing arrived for {_SILENCE:g} seconds")


def _find_proxy(url: URL) -> str | None:
    """Return the proxy that the environment names for an address, as httpx finds it; None for none.

    Raises:
        UsageError: it cannot be used.
    """
    if url.host is None or proxy_bypass(url.host) or proxy_bypass(f"{url.host}:{url.port}"):
        return None
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    try:
        is_usable = URL(proxy).scheme in ("http", "https") and URL(proxy).host
    except ValueError:
        is_usable = False
    if not is_usable:
        raise UsageError(
            f"{redact(proxy)!r}, the proxy of the environment for {url.host}, is not an HTTP proxy: set"
            f" {url.scheme}_proxy to one, or add {url.host} to no_proxy"
        )
    return proxy
