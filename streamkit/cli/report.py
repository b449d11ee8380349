"""Write recorded streams as one page for a browser: the frames with their events.

The page is one file that needs no network. It is the page of `streamkit tap`: the response with its calls, each frame
with its events, usage, warnings and errors, with keys masked. A file is a captured response (SSE, NDJSON, JSON,
Amazon's event stream), whose provider is detected from the first bytes, or one that --record wrote. For a folder, all
its recordings are read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from streamkit.cli.recordings import (
    NotAStreamError,
    add_provider_argument,
    check_provider_argument,
    expand_paths,
    find_recording,
    read_parts,
)
from streamkit.cli.terminal import OutputError, escape_line
from streamkit.errors import UsageError
from streamkit.reading.stream_file import create_private
from streamkit.values.redaction import redact

if TYPE_CHECKING:
    from streamkit.gateway.tap.observed_exchange import ObservedExchange

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("files", nargs="+", metavar="FILE", type=Path, help="a recorded stream, or a folder of them")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("report.html"), metavar="FILE", help="the page (report.html)"
    )
    add_provider_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Write the page; return 2 if a file is not a stream."""
    from streamkit.gateway.tap.page import build_report

    check_provider_argument(options.provider)
    code = 0
    exchanges: list[ObservedExchange] = []
    for path in _find_files(options.files, options.output):
        try:
            exchanges.append(_read(path, options.provider, exchanges))
        except (OSError, NotAStreamError) as error:
            reason = f"the file cannot be read: {error.strerror or error}" if isinstance(error, OSError) else str(error)
            print(escape_line(redact(f"{path}: {reason}")), file=sys.stderr)
            code = 2
    if not exchanges:
        raise UsageError("no file is a recorded stream, so there is nothing to report")
    page = build_report([exchange.detail() for exchange in exchanges]).encode()
    try:
        with create_private(options.output) as file:
            file.write(page)
    except OSError as error:
        raise OutputError(str(options.output), error) from None
    count = "1 response" if len(exchanges) == 1 else f"{len(exchanges)} responses"
    print(escape_line(f"{options.output}: {count}"))
    return code


def _find_files(given: Iterable[Path], output: Path) -> Iterator[Path]:
    """Yield the recordings, without the page of before in their folder.

    Raises:
        UsageError: the page would be written over a recording.
    """
    for each in given:
        for file in expand_paths(each):
            if not (output.is_file() and file.is_file() and file.samefile(output)):
                yield file
            elif file == each or file.suffix != ".html":
                raise UsageError(f"{output} is one of the recordings: give -o another file")


def _read(path: Path, provider: str, earlier: Sequence[ObservedExchange]) -> ObservedExchange:
    """Return the exchange of a recording, which follows others."""
    recording = find_recording(path)
    key = len(earlier) + 1
    if recording.response is None:
        exchange, _ = recording.begin(key, provider, (), reversed(earlier))
    else:
        with recording.response.open("rb") as source:
            exchange, parts = recording.begin(key, provider, read_parts(source), reversed(earlier))
            for _ in recording.feed(exchange, parts):
                pass
    recording.end(exchange)
    return exchange
