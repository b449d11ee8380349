"""The HTTP client of ``streamkit gateway``: aiohttp, whose parser of HTTP is compiled.

With it a frame costs the gateway a half (read by itself) to a quarter (read with others) of what it costs with httpx:
``python -m benchmarks gateway``. httpx gives the certificates, so that all commands trust the same ones.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx
from yarl import URL

if TYPE_CHECKING:
    from streamkit.bridges.gateway import Ask, UpstreamRequest

__all__ = ["UpstreamResponse", "ask_over_http", "open_client"]

_CONNECTING = 30.0  # seconds
_SILENCE = 600.0  # seconds; a model may think for minutes before the first byte
_LONGEST_HEADER = 65_536  # bytes; aiohttp's own limit is 8,190, which a content security policy can exceed


class UpstreamResponse:
    """A response as `streamkit.read` takes it.

    Args:
        response: aiohttp's, open.

    Attributes:
        status_code: the HTTP status.
        headers: the headers; the case of their names does not matter.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status_code = response.status
        self.headers: Mapping[str, str] = response.headers

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Return the parts of the body, decompressed, as they arrive."""
        return self._response.content.iter_any()


def open_client() -> aiohttp.ClientSession:
    """Return a client without a limit of connections, because the gateway limits its requests.

    It keeps no cookies: those of one client's request must not go up with another one's.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=httpx.create_ssl_context()),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECTING, sock_read=_SILENCE),
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=_LONGEST_HEADER,
        max_field_size=_LONGEST_HEADER,
        trust_env=True,  # the proxies of the environment, as httpx
    )


def ask_over_http(client: aiohttp.ClientSession, address: str, headers: Mapping[str, str]) -> Ask:
    """Return the function that asks an upstream.

    Args:
        client: the HTTP client.
        address: the base URL.
        headers: those of every request, such as the key.
    """

    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[Any]:
        async with client.post(
            URL(address + request.path, encoded=True),  # the path is quoted: a model's name may contain "%3A"
            data=json.dumps(request.body, separators=(",", ":"), allow_nan=False).encode(),
            headers={"content-type": "application/json", **request.headers, **headers},
            allow_redirects=False,
        ) as response:
            yield UpstreamResponse(response)

    return ask
