"""Recordings as the commands read them: the bytes as they arrive, and the provider by the first of them.

A recording is a captured response alone, or one with the request and the facts that ``--record`` wrote.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from streamkit import providers
from streamkit.gateway.tap.exchange_folder import FACTS_SUFFIX, ExchangeFacts, read_facts, shared_fields
from streamkit.gateway.tap.observed_exchange import ExchangeEnd, ExchangeStart, ObservedExchange

__all__ = [
    "AUTO",
    "NotAStreamError",
    "RecordedExchange",
    "add_provider_argument",
    "check_provider_argument",
    "detect_provider",
    "expand_paths",
    "find_recording",
    "read_parts",
]

AUTO = "auto"  #: the value of ``--provider`` for detection
_READ_SIZE = 65536  # bytes
_HEAD_SIZE = 4096  # bytes that must suffice to detect the provider


class NotAStreamError(Exception):
    """A file that is not a stream of the provider; the message describes it."""


def add_provider_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--provider``, for recordings of a provider that is not detected."""
    parser.add_argument(
        "--provider",
        default=AUTO,
        metavar="NAME",
        help=f"the provider of the stream: auto (the default), {', '.join(providers.names())}",
    )


def check_provider_argument(provider: str) -> None:
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
    """Return the provider of a stream, and all of its bytes; with `AUTO` as many are read as detection needs.

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


class RecordedExchange(NamedTuple):
    """The files of a recording."""

    response: Path | None  #: the file of the response; None if there was none
    facts: ExchangeFacts | None  #: what ``--record`` wrote about the exchange; None for a capture
    request: bytes | None  #: the body of the request, if it was recorded

    def begin(
        self, key: int, provider: str, parts: Iterable[bytes], earlier: Iterable[ObservedExchange] = ()
    ) -> tuple[ObservedExchange, Iterator[bytes]]:
        """Return the exchange of this number before its response, and the bytes of the response.

        With `AUTO` the provider is that of the facts, else it is known by the first bytes. *earlier* is as in
        `ObservedExchange`.

        Raises:
            NotAStreamError: no provider is known.
        """
        facts = self.facts
        shown: str | None = provider
        chunks = iter(parts)
        if provider == AUTO and facts is not None:
            shown = facts.provider  # None if the response is not one of a model
        elif provider == AUTO:
            shown, chunks = detect_provider(provider, parts)
        if facts is None:
            name = "" if self.response is None else self.response.name
            return ObservedExchange(key, ExchangeStart(at=None, method="", path=name, provider=shown)), chunks
        fields = shared_fields(facts, ExchangeStart) | {"provider": shown}
        start = ExchangeStart(at=facts.seconds_since_1970(), request=self.request, **fields)
        exchange = ObservedExchange(key, start, earlier=earlier)
        if facts.upstream_status is not None:
            exchange.respond(facts.seconds_since_1970(facts.seconds_to_headers), facts.upstream_status, facts.headers)
        for note in facts.notes:
            exchange.add_note(note)
        exchange.lose(facts.missing_parts)
        return exchange, chunks

    def feed(self, exchange: ObservedExchange, parts: Iterable[bytes]) -> Iterator[None]:
        """Pass the bytes of the response to the exchange, with their times if they are recorded; yield after each."""
        times = iter(() if self.facts is None else self.facts.times)
        lines, (until, seconds) = 0, next(times, (None, None))
        for part in parts:
            for line in part.splitlines(keepends=True) if until is not None else [part]:
                at = None if self.facts is None else self.facts.seconds_since_1970(seconds)
                exchange.receive(at, line)
                lines += line.endswith(b"\n")
                if until is not None and lines >= until:
                    until, seconds = next(times, (until, seconds))
            yield

    def end(self, exchange: ObservedExchange) -> None:
        """End the exchange, as the facts have it.

        Raises:
            NotAStreamError: a capture is not a stream of its provider.
        """
        facts = self.facts
        if facts is not None:
            at = facts.seconds_since_1970(facts.seconds)
            exchange.end(ExchangeEnd(at=at, **shared_fields(facts, ExchangeEnd)))
            return
        exchange.end(ExchangeEnd(at=None))
        turn = exchange.turn
        if turn is not None and turn.error is not None and turn.error.kind == "protocol_error":
            if not (turn.text or turn.reasoning or turn.calls):
                raise NotAStreamError(f"not a stream of {turn.provider.name}: {turn.error.message}")


def find_recording(path: Path) -> RecordedExchange:
    """Return the recording that a file is part of: a response, or the facts of an exchange.

    Raises:
        OSError: a file cannot be read.
        NotAStreamError: the facts are not those of an exchange.
    """
    base = path.name.partition(".response.")[0] if ".response." in path.name else path.name.removesuffix(FACTS_SUFFIX)
    facts_file = path.with_name(base + FACTS_SUFFIX)
    if path.name == base or not facts_file.is_file():
        return RecordedExchange(path, None, None)
    try:
        facts = read_facts(facts_file)
    except ValueError as error:
        raise NotAStreamError(f"{facts_file.name} is not the facts of an exchange: {error}") from None
    # Only the last part of a name counts, and no link, so that the facts cannot name a file in another folder.
    response, request = (
        None if name is None else path.with_name(Path(name).name) for name in (facts.response, facts.request)
    )
    for each in (response, request):
        if each is not None and each != path and each.is_symlink():
            raise NotAStreamError(f"{each.name} is a link to another file, which is not followed")
    body = request.read_bytes() if request is not None and request.is_file() else None
    return RecordedExchange(response, facts, body)


def expand_paths(path: Path) -> list[Path]:
    """Return the recordings in a folder, no links, one path each, in the order of their names; a file is itself."""
    if not path.is_dir():
        return [path]
    found = [file for file in sorted(path.rglob("*")) if file.is_file() and not file.is_symlink()]
    files = [file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    recorded = {file.name.removesuffix(FACTS_SUFFIX) for file in files if file.name.endswith(FACTS_SUFFIX)}
    return [
        file
        for file in files
        if not file.name.endswith(".request.json")
        and (file.name.endswith(FACTS_SUFFIX) or file.name.partition(".response.")[0] not in recorded)
    ]
