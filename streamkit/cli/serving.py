"""What the commands that serve have in common: sockets, addresses, signals, a second server in a thread, and observers.

The observers of ``streamkit gateway`` and ``streamkit tap`` are the page of the tap and the folder of recordings.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import ipaddress
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkit.errors import UsageError

if TYPE_CHECKING:
    from streamkit.cli.joined_head import ConnectionLimits
    from streamkit.cli.terminal import Notes
    from streamkit.gateway.tap import ExchangeObserver

__all__ = [
    "TAP_PORT",
    "add_connection_arguments",
    "add_record_argument",
    "address_of",
    "connection_limits",
    "is_loopback",
    "listen",
    "logged",
    "observation",
    "port_number",
    "reloading",
    "serve_until_signal",
    "served_in_thread",
    "server_settings",
    "terminated_in_order",
]

_log = logging.getLogger("streamkit.gateway.command")
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


def server_settings(limits: ConnectionLimits | None = None) -> dict[str, Any]:
    """Return the settings of uvicorn that all servers have: limits, no log, no headers added to responses."""
    from streamkit.cli.joined_head import ConnectionLimits, JoinedHeadProtocol

    return {
        "http": partial(JoinedHeadProtocol, limits=limits or ConnectionLimits(), waiting={}),
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

    *end* ends the responses that do not end by themselves.
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
    app: Any,
    listening: socket.socket,
    report: Callable[[str], None],
    limits: ConnectionLimits | None = None,
    **settings: Any,
) -> None:
    """Serve an application until a signal, then let its open responses end; *settings* are further ones of uvicorn."""
    import uvicorn

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if (count := len(self.server_state.tasks)) and not self.force_exit:
                responses = "1 open response" if count == 1 else f"{count} open responses"
                report(f"waiting for {responses}, at most {_GRACE} seconds; Ctrl-C again ends at once")
            await super().shutdown(sockets)

    config = uvicorn.Config(app, **{**server_settings(limits), **settings}, timeout_graceful_shutdown=_GRACE)
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


@contextmanager
def reloading(reload: Callable[[], None] | None) -> Iterator[None]:
    """Let SIGHUP read a file again, with the result in the log; None for nothing that is read again."""
    number = getattr(signal, "SIGHUP", None)
    if reload is None or number is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def read_again() -> None:
        try:
            reload()
        except UsageError as error:
            _log.warning("the keys stay as they were: %s", error)
        else:
            _log.info("the keys were read again")

    events = asyncio.get_running_loop()
    events.add_signal_handler(number, read_again)
    try:
        yield
    finally:
        events.remove_signal_handler(number)


TAP_PORT = 8701
_PAGE_HOST = "127.0.0.1"  # the page shows conversations; it has no key, so it is for this computer alone


def add_record_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--record``."""
    parser.add_argument(
        "--record",
        metavar="DIR",
        type=Path,
        help="write each request and response to this folder, without keys, for `streamkit report`",
    )


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the limits of connections."""
    for option, metavar, kind, default, meaning in (
        ("--head-timeout", "SECONDS", float, 20.0, "the time for the head of a request"),
        ("--stall-timeout", "SECONDS", float, 300.0, "the time in which a client must read some of its response"),
        ("--connections", "N", int, 4000, "open connections; the one that waits longest is closed for a further one"),
    ):
        parser.add_argument(option, metavar=metavar, type=kind, default=default, help=f"{meaning} ({default})")


def connection_limits(options: argparse.Namespace) -> ConnectionLimits:
    """Return the limits of connections that the command line states."""
    from streamkit.cli.joined_head import ConnectionLimits

    given = options.head_timeout, options.stall_timeout, options.connections
    return ConnectionLimits(*given)


class _LogHandler(logging.Handler):
    """Writes records as lines of the command, escaped; JSON by its own escapes."""

    def __init__(self, notes: Notes, *, as_json: bool) -> None:
        super().__init__()
        self._notes = notes
        self._as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        from streamkit.cli.terminal import OutputError, escape_json_text

        with suppress(OutputError):  # its reader has left, or the disk is full: raised, it ends a connection
            line = self.format(record) + "\n"
            if self._as_json:
                self._notes.console.file.write(escape_json_text(line))
                self._notes.console.file.flush()
            else:
                self._notes.write(line, "red" if record.levelno >= logging.WARNING else "")


@contextmanager
def logged(notes: Notes, *, as_json: bool) -> Iterator[Callable[[str], None]]:
    """Write the log of a gateway and of its server; yield the function that reports a line in the same form."""
    from streamkit.gateway.logs import LogFormatter

    handler = _LogHandler(notes, as_json=as_json)
    handler.setFormatter(LogFormatter(as_json=as_json, clean=notes.clean))
    outputs = logging.getLogger("streamkit"), logging.getLogger("uvicorn")
    levels = dict.fromkeys(outputs, logging.WARNING)
    levels |= dict.fromkeys((_log, logging.getLogger("streamkit.gateway.requests")), logging.INFO)
    before = {logger: logger.level for logger in levels}
    for logger, level in levels.items():
        logger.setLevel(level)
    for logger in outputs:
        logger.addHandler(handler)
    try:
        yield _log.info if as_json else notes.print
    finally:
        for logger, level in before.items():
            logger.setLevel(level)
            logger.removeHandler(handler)


@contextmanager
def observation(
    page_port: int | None, folder: Path | None, secrets: Sequence[str], report: Callable[[str], None]
) -> Iterator[ExchangeObserver]:
    """Serve the page and open the folder of recordings, if wanted; yield the observer, which masks the secrets.

    Raises:
        UsageError: the port cannot be served, or the folder cannot be created.
    """
    from streamkit.gateway.tap import ExchangeFolder, ExchangeList, ExchangeObserver
    from streamkit.gateway.tap.relay import Relay

    relays: list[Relay] = []
    with ExitStack() as stack:
        if page_port is not None:
            from streamkit.gateway.tap.page import TapPage

            exchanges = ExchangeList()
            relays.append(Relay(exchanges, report=report))
            listening = stack.enter_context(listen(_PAGE_HOST, page_port))
            page = TapPage(exchanges)
            stack.enter_context(served_in_thread(page, listening, page.close))
            report(f"tap: {address_of(listening)}")
        if folder is not None:
            try:
                target = ExchangeFolder(folder)
            except OSError as error:
                raise UsageError(f"{folder} cannot be a folder of recordings: {error.strerror or error}") from None
            relays.append(Relay(target, report=report))
            report(f"recording to {folder}")
        for relay in relays:
            stack.callback(relay.close)
        yield ExchangeObserver(*relays, secrets=secrets)
