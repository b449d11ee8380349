"""Recorded streams as the commands read them: the bytes as they arrive, and the provider by the first of them."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from streamkit import providers

__all__ = ["AUTO", "NotAStreamError", "add_provider_argument", "check_provider", "detect_provider", "read_parts"]

AUTO = "auto"  #: the value of ``--provider`` for detection

_READ_SIZE = 65536  # bytes
_HEAD_SIZE = 4096  # bytes that must suffice to detect the provider


class NotAStreamError(Exception):
    """A file that is not a stream of the provider; the message describes it."""


def add_provider_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--provider``, for recordings whose provider is not detected."""
    parser.add_argument(
        "--provider",
        default=AUTO,
        metavar="NAME",
        help=f"the provider of the stream: auto (the default), {', '.join(providers.names())}",
    )


def check_provider(provider: str) -> None:
    """Check the value of ``--provider`` before a file is read.

    Raises:
        UnknownProvider: it names none.
    """
    if provider != AUTO:
        providers.get(provider)


def read_parts(source: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of a file as they arrive."""
    # read1 returns what is available, so that the events of a pipe are printed as they arrive.
    read = getattr(source, "read1", source.read)
    while part := read(_READ_SIZE):
        yield part


def detect_provider(provider: str, parts: Iterable[bytes]) -> tuple[str, Iterator[bytes]]:
    """Return the provider of a stream, and all of its bytes.

    Args:
        provider: its name, or `AUTO`.
        parts: the bytes of the stream, of which as many are read as detection needs.

    Raises:
        NotAStreamError: the bytes are of no known provider.
    """
    parts = iter(parts)
    if provider != AUTO:
        return provider, parts
    head = b""
    detected = None
    for part in parts:
        head += part
        detected = providers.detect(head)
        if detected is not None or len(head) >= _HEAD_SIZE:
            break
    if detected is None:
        raise NotAStreamError(_describe(head))
    return detected, itertools.chain([head], parts)


def _describe(head: bytes) -> str:
    """Return why no provider was detected from the first bytes."""
    if not head:
        return "the file is empty"
    begin = head[:60].decode("utf-8", "replace").splitlines()[0] if head.strip() else "white space"
    return f"not a stream of a known provider: it begins with {begin!r}. Name the provider with --provider"
