"""``TapPage``: the page of a tap as an ASGI application; and the same page as one file.

- ``/`` is the page; ``/events`` the exchanges as server-sent events; ``/exchanges/N.html`` the report of one.
- Another website in the same browser can read nothing: the host of a request must be this computer's own name (against
  DNS rebinding), its origin that of the page, and responses may not be embedded.
- Nothing is queued for a viewer. A slow one gets all changes since its last answer at once.
- The page is one self-contained HTML file: style, script and data inside, nothing loaded. The live page is the same
  file without data. What models and servers sent is data and never markup: the script sets it as text, and here each
  ``<`` of the JSON is escaped, so that no ``</script>`` in it ends the element. The content security policy allows this
  one script and this one style by their hashes.
"""

from __future__ import annotations

import re
import secrets
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from streamkit.errors import UsageError
from streamkit.gateway.tap.exchange_list import ExchangeList

__all__ = [
    "TapPage",
    "build_report",
    "live_page",
    "page_policy",
]


_SCRIPTS = ("response.js", "timeline.js", "detail.js", "page.js")


def live_page() -> str:
    """Return the page that reads exchanges from the server that it comes from."""
    return _page("null", "connect-src 'self'")


def build_report(exchanges: Sequence[bytes]) -> str:
    """Return the page with these exchanges in it.

    Args:
        exchanges: what ``ObservedExchange.detail`` returned for each.
    """
    data = b'{"exchanges":[' + b",".join(exchanges) + b"]}"
    return _page(data.decode(), "connect-src 'none'")


def page_policy(connections: str = "connect-src 'self'") -> str:
    """Return the content security policy of the page.

    Args:
        connections: the directive for connections.
    """
    style, script = _assets()
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; {connections};"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )


def _page(data: str, connections: str) -> str:
    style, script = _assets()
    # < and > cannot end the element or begin a comment; the separators are line ends in older JavaScript.
    for character in "<>\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    parts = {"policy": page_policy(connections), "style": style, "script": script, "data": data}
    before, *rest = _read("page.html").split("{{")
    page = [before]
    for part in rest:  # in one pass, since data may contain the name of a part
        name, _, after = part.partition("}}")
        page += [parts[name], after]
    return "".join(page)


@cache
def _assets() -> tuple[str, str]:
    """Return the style and the script."""
    return _read("page.css"), '"use strict";\n' + "\n".join(map(_read, _SCRIPTS))


def _read(name: str) -> str:
    return (files("streamkit.gateway.tap") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?")
_INTERVAL = 0.05  # seconds between two answers to a viewer
_PING = 15.0  # seconds without an event after which a comment is sent, so that a lost connection is noticed
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": page_policy() + "; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class TapPage:
    """The ASGI application.

    Args:
        exchanges: what the page shows.
    """

    def __init__(self, exchanges: ExchangeList) -> None:
        self._exchanges = exchanges
        self._instance = secrets.token_hex(4)
        self._is_closed = False

    def close(self) -> None:
        """End the events of all viewers, so that the server can end. It may be called in any thread."""
        self._is_closed = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise UsageError(f"the page of a tap is served over HTTP, not {scope['type']!r}")
        response = self._respond(Request(scope, receive))
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    def _respond(self, request: Request) -> Response:
        if not _is_own(request):
            return PlainTextResponse("this page is only for a browser on this computer, at its own address", 403)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse(f"GET, not {request.method}", 405, {"allow": "GET, HEAD"})
        path = request.url.path
        if path == "/":
            return HTMLResponse(live_page())
        if path == "/events":
            events = self._events(*self._position(request))
            return StreamingResponse(events, media_type="text/event-stream")
        name = path.removeprefix("/exchanges/").removesuffix(".html")
        if path == f"/exchanges/{name}.html" and name.isdecimal() and len(name) < 16:
            return self._report(int(name), is_download="download" in request.query_params)
        return PlainTextResponse("there is no such page", 404)

    def _report(self, key: int, *, is_download: bool) -> Response:
        detail = self._exchanges.detail(key)
        if detail is None:
            return PlainTextResponse("this exchange is no longer kept", 404)
        headers = {"content-security-policy": page_policy("connect-src 'none'") + "; frame-ancestors 'none'"}
        if is_download:
            headers["content-disposition"] = f'attachment; filename="streamkit-{key}.html"'
        return HTMLResponse(build_report([detail]), headers=headers)

    def _position(self, request: Request) -> tuple[int, int | None, int, bool]:
        """Return the version, the exchange and the row at which a viewer continues, and whether it begins anew."""
        wanted = request.query_params.get("exchange", "")
        selected = int(wanted) if wanted.isdecimal() and len(wanted) < 16 else None
        instance, *position = request.headers.get("last-event-id", "").split(".")
        if instance == self._instance and len(position) == 2 and all(part.isdecimal() for part in position):
            return int(position[0]), selected, int(position[1]), False
        return 0, selected, 0, True

    async def _events(self, version: int, selected: int | None, row: int, is_new: bool) -> AsyncIterator[bytes]:
        """Yield the changes as server-sent events, at most one in each ``_INTERVAL``."""
        quiet = 0.0
        while not self._is_closed:
            changes = self._exchanges.changes(version, selected, row)
            if is_new or changes.summaries or changes.rows:
                data = {
                    "reset": is_new,
                    "time": time.time(),
                    "summaries": changes.summaries,
                    "dropped": changes.dropped,
                    "exchange": selected,
                    "request": changes.request,
                    "rows": [msgspec.Raw(line) for line in changes.rows],
                }
                version, row, is_new, quiet = changes.version, changes.next_row, False, 0.0
                yield (
                    b"id: %s.%d.%d\ndata: " % (self._instance.encode(), version, row)
                    + msgspec.json.encode(data)
                    + b"\n\n"
                )
            elif quiet >= _PING:
                quiet = 0.0
                yield b": ping\n\n"
            quiet += _INTERVAL
            await anyio.sleep(_INTERVAL)


def _is_own(request: Request) -> bool:
    """Return whether a request is from a page of this server, or typed or opened by a person."""
    host = request.headers.get("host", "")
    if _HOST.fullmatch(host) is None or request.headers.get("origin", f"http://{host}") != f"http://{host}":
        return False
    site = request.headers.get("sec-fetch-site", "none")
    is_navigation = request.headers.get("sec-fetch-mode") == "navigate"
    return site in ("none", "same-origin") or is_navigation
