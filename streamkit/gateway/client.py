"""The connection to one client: the site that a request is from, the response that is sent, and its end.

A gateway without a key is open to the web pages in the browsers of its computer. Without the headers of CORS a browser
shows no response to a page of another site, and asks before it sends JSON. But it sends a text or a form at once, so
that any page could have a model asked at the user's cost; and a site whose name was made to lead to this computer (DNS
rebinding) counts as the gateway's own: https://nvd.nist.gov/vuln/detail/CVE-2024-28224.

Every send is awaited, so that a client that reads slowly slows the reading of the upstream. Heartbeats keep clients and
proxies from closing a connection on which a model is silent. They are no events: a response that consists of heartbeats
alone has not begun (docs/rules.md, "The gateway").

A watch in another task waits for the client to disconnect, and cancels the service (`run_watched`). On asyncio it is a
plain task with ``asyncio.timeout``: with anyio's task group and cancel scopes a tenth more is executed until the first
byte of a response. This module must not depend on wires or upstreams.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from time import monotonic
from typing import Any

import anyio
from starlette.types import Receive, Send

from streamkit.execution.one_call.background import current_asyncio_task

__all__ = [
    "ClientStream",
    "is_from_another_site",
    "is_public_name",
    "receive_within",
    "run_watched",
]


#: The types that a browser sends without asking; "" is a body without a type.
#: https://fetch.spec.whatwg.org/#cors-safelisted-request-header
_SENT_AT_ONCE = ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data")


def is_from_another_site(headers: Mapping[str, str]) -> bool:
    """Return whether a web page of another site has sent a request with a body, which it must not.

    Other programs send no ``Origin``; apps and extensions with a browser inside send one, and JSON.

    Args:
        headers: the request's headers, with names in lower case.
    """
    origin = headers.get("origin")
    if origin is None:
        return False
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    host = headers.get("host", "").lower()
    # The gateway serves no page, so none can be of its own. One behind a proxy has an address with https.
    return kind in _SENT_AT_ONCE or (origin.lower() == f"http://{host}" and is_public_name(host))


def is_public_name(host: str) -> bool:
    """Return whether a host in lower case, with or without a port, may be a name of the public DNS."""
    name, _, port = host.rpartition(":")
    name = (name if port.isdecimal() else host).removesuffix(".")
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        # Never public: RFC 6761, RFC 6762, https://en.wikipedia.org/wiki/.internal (Docker's host.docker.internal)
        return "." in name and not name.endswith((".localhost", ".local", ".internal"))
    return False


class ClientStream:
    """The response to one client, as ASGI messages. One task sends it, another one waits for the client to disconnect.

    Args:
        send: the application's.

    Attributes:
        has_ended: nothing more is sent.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        # A heartbeat is never sent within another message. A lock would cost more than the rest of ``write``.
        self._is_sending = False
        self._heartbeat_sent: anyio.Event | None = None  # while one is sent
        self._last_sent = monotonic()
        self._has_started = False
        self.has_ended: bool = False

    async def write(self, part: bytes, *, headers: Mapping[str, str] | None = None, is_last: bool = False) -> None:
        """Send a part of the body. After the last one nothing is sent, such as an error.

        Args:
            part: the bytes.
            headers: those of the response with its first part, sent unless a heartbeat was sent before.
            is_last: no other part follows.
        """
        if self.has_ended:
            return
        self._is_sending = True
        if self._heartbeat_sent is not None:
            await self._heartbeat_sent.wait()
        if headers is not None and not self._has_started:
            await self._start(headers)
        self.has_ended = is_last
        await self._send({"type": "http.response.body", "body": part, "more_body": not is_last})
        self._is_sending = False
        self._last_sent = monotonic()

    async def _start(self, headers: Mapping[str, str]) -> None:
        """Send the status 200 and the headers."""
        self._has_started = True
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": raw})

    async def cancel(self) -> bool:
        """Return True if nothing was sent, and send nothing from here on; False if the response has started."""
        self._is_sending = True
        if self._heartbeat_sent is not None:
            await self._heartbeat_sent.wait()
        self._is_sending = False
        self.has_ended = self.has_ended or not self._has_started
        return not self._has_started

    async def wait_for_disconnect(
        self, receive: Receive, interval: float | None, describe: Callable[[], tuple[Mapping[str, str], bytes]]
    ) -> None:
        """Return when the client disconnects, or when the server reports the end of the response.

        Until then a heartbeat is sent after each interval in which nothing was sent.

        Args:
            receive: the application's.
            interval: seconds; None for no heartbeats.
            describe: returns the headers of the response and the heartbeat, ``b""`` for none at present.
        """
        while True:
            remaining = None
            if interval is not None and not self.has_ended:
                remaining = self._last_sent + interval - monotonic()
                if remaining <= 0:
                    await self._send_heartbeat(*describe())
                    continue
            message = await receive_within(receive, remaining)
            if message is not None and message["type"] == "http.disconnect":
                return

    async def _send_heartbeat(self, headers: Mapping[str, str], heartbeat: bytes) -> None:
        self._last_sent = monotonic()
        if not heartbeat or self._is_sending:  # a client that does not read gets no more
            return
        self._heartbeat_sent = anyio.Event()
        try:
            if not self._has_started:
                await self._start(headers)
            await self._send({"type": "http.response.body", "body": heartbeat, "more_body": True})
        finally:
            self._heartbeat_sent.set()
            self._heartbeat_sent = None


async def run_watched(service: Awaitable[None], watch: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Await a service, and cancel it if its watch reports an end, or fails.

    Args:
        service: the service.
        watch: starts the watch in another task, which is canceled when the service ends. It returns whether to cancel
            the service.

    Raises:
        Exception: what the service has raised, or the watch.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None:  # trio
        await _run_in_task_group(service, watch)
        return
    cancellations = task.cancelling()
    has_ended = is_canceled = False

    async def cancel_after_watch() -> None:
        nonlocal is_canceled
        must_cancel = True
        try:
            await asyncio.sleep(0)  # the service starts further tasks: aiohttp sends the request in one
            must_cancel = await watch()
        finally:
            if must_cancel and not has_ended:
                is_canceled = True
                task.cancel()

    watching = asyncio.create_task(cancel_after_watch())
    try:
        await service
    except asyncio.CancelledError:
        if not is_canceled or task.cancelling() > cancellations + 1:  # somebody else has canceled it, too
            raise
    finally:
        has_ended = True
        watching.cancel()
        if is_canceled:
            task.uncancel()
    if is_canceled:
        watching.result()


async def _run_in_task_group(service: Awaitable[None], watch: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    failure: Exception | None = None  # raised outside, where it is no group of exceptions

    async def cancel_after_watch() -> None:
        nonlocal failure
        must_cancel = True
        try:
            must_cancel = await watch()
        except Exception as error:
            failure = error
        if must_cancel:
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel_after_watch)
        try:
            await service
        except Exception as error:
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def receive_within(receive: Callable[[], Awaitable[Any]], seconds: float | None) -> Any:
    """Return the next message, or None if none has come after so many seconds; None for no limit."""
    if current_asyncio_task() is None:
        with anyio.move_on_after(seconds):
            return await receive()
        return None
    try:
        async with asyncio.timeout(seconds):
            return await receive()
    except TimeoutError:
        return None
