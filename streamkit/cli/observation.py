"""The observers of ``streamkit gateway`` and ``streamkit tap``: the page of the tap, and the folder of recordings."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from streamkit.cli.serving import address_of, listen, served_in_thread
from streamkit.errors import UsageError

if TYPE_CHECKING:
    from streamkit.gateway.tap import ExchangeObserver

__all__ = ["TAP_PORT", "add_record_argument", "observation"]

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


@contextmanager
def observation(
    page_port: int | None, folder: Path | None, secrets: Sequence[str], report: Callable[[str], None]
) -> Iterator[ExchangeObserver]:
    """Serve the page and open the folder; yield the observer.

    Args:
        page_port: the port of the page; None for no page.
        folder: the folder of recordings; None for none.
        secrets: texts that are masked.
        report: prints a line.

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
