"""Sockets, addresses and settings of the commands that serve, and a second server in a thread."""

from __future__ import annotations

import argparse
import errno
import ipaddress
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from streamkit.errors import UsageError

__all__ = [
    "address_of",
    "is_loopback",
    "listen",
    "port_number",
    "serve_until_signal",
    "served_in_thread",
    "server_settings",
    "terminated_in_order",
]

#: Seconds until the thread of a server is left alone. It ends in one or two; its socket must not be closed before.
_PATIENCE = 30
_GRACE = 30  # seconds in which open responses may end after Ctrl-C


def is_loopback(host: str) -> bool:
    """Return whether only this computer can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        UsageError: the address cannot be served.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE  # the text of create_server has the address once more
        reason = "another program serves it, so give another one" if is_taken else error.strerror or error
        raise UsageError(f"port {port} of {host} cannot be served: {reason}") from None
    # Connections inherit this option; without it the end of a response waits for the client's delayed acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address_of(listening: socket.socket) -> str:
    """Return the address of a socket for people, such as ``http://127.0.0.1:8700``."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def port_number(text: str) -> int:
    """Return a port number of the command line."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, not {text!r}")
    return int(text)


def server_settings() -> dict[str, Any]:
    """Return the settings of uvicorn that all servers have: no log, no headers added to responses."""
    from streamkit.cli.joined_head import JoinedHeadProtocol

    return {
        "http": JoinedHeadProtocol,
        "loop": "asyncio",  # else uvicorn 0.31, the lowest version, makes uvloop the event loop of the whole process
        "lifespan": "off",
        "ws": "none",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
    }


@contextmanager
def served_in_thread(app: Any, listening: socket.socket, end: Callable[[], None] | None = None) -> Iterator[None]:
    """Serve an application in a thread with another event loop, so that it cannot delay another server.

    Args:
        app: the ASGI application.
        listening: the socket.
        end: ends the responses that do not end by themselves.
    """
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, **server_settings(), timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listening],), name="streamkit.tap.page", daemon=True)
    thread.start()
    try:
        yield
    finally:
        if end is not None:
            end()
        while not server.started and thread.is_alive():  # told before, it returns without closing its socket
            time.sleep(0.01)
        server.should_exit = True
        thread.join(_PATIENCE)


async def serve_until_signal(
    app: Any, listening: socket.socket, report: Callable[[str], None], **settings: Any
) -> None:
    """Serve an application until a signal, then let its open responses end.

    Args:
        app: the ASGI application.
        listening: the socket.
        report: prints a line.
        settings: further ones of uvicorn.
    """
    import uvicorn

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if (count := len(self.server_state.tasks)) and not self.force_exit:
                responses = "1 open response" if count == 1 else f"{count} open responses"
                report(f"waiting for {responses}, at most {_GRACE} seconds; Ctrl-C again ends at once")
            await super().shutdown(sockets)

    config = uvicorn.Config(app, **{**server_settings(), **settings}, timeout_graceful_shutdown=_GRACE)
    await Server(config).serve(sockets=[listening])


@contextmanager
def terminated_in_order() -> Iterator[None]:
    """Let SIGTERM end a block as Ctrl-C does, and then the process as usual.

    uvicorn sends a signal to its own process again when it has ended. SIGTERM, with which systemd and Docker end a
    process, would end it at once, without the recordings that wait to be written.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return
    is_terminated = False

    def stop(number: int, frame: object) -> None:
        nonlocal is_terminated
        is_terminated = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        if not is_terminated:
            raise
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
    if is_terminated:
        signal.raise_signal(signal.SIGTERM)
