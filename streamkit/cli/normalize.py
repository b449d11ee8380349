"""Read recorded streams of any provider and print their turns.

The output is one JSON object for each file (text, reasoning, calls, finish, usage, error, warnings), or with --events
one event a line. The provider is detected from the first bytes. For a folder, all its files are read; - reads standard
input as it arrives.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from streamkit import providers
from streamkit.cli.terminal import ProtectedStream, escape_line
from streamkit.events import Event, to_json
from streamkit.json_text import replace_lone_surrogates
from streamkit.redaction import redact
from streamkit.turn import Turn

__all__ = ["configure", "run"]

_READ_SIZE = 65536  # bytes
_HEAD_SIZE = 4096  # bytes that must suffice to detect the provider


class _NotAStreamError(Exception):
    """A file that is not a stream of the provider; the message describes it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a recorded stream, a folder of them, or - for stdin")
    parser.add_argument(
        "--provider",
        default="auto",
        metavar="NAME",
        help=f"the provider of the streams: auto (the default), {', '.join(providers.names())}",
    )
    parser.add_argument("--events", action="store_true", help="print the events, one a line")


def run(options: argparse.Namespace) -> int:
    """Normalize each file; return 2 if one of them is not a stream."""
    if options.provider != "auto":
        providers.get(options.provider)
    code = 0
    for name in options.files:
        path = Path(name)
        files = [path]
        if name != "-" and path.is_dir():
            files = [
                file
                for file in sorted(path.rglob("*"))
                if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts)
            ]
            if not files:
                _report(name, "the folder contains no file")
                code = 2
        for file in files:
            try:
                _normalize(str(file), options.provider, events=options.events)
            except OSError as error:  # of the file: an error of the output is an OutputError
                source = "standard input" if name == "-" else "the file"
                _report(str(file), f"{source} cannot be read: {error.strerror or error}")
                code = 2
            except _NotAStreamError as error:
                _report(str(file), str(error))
                code = 2
    return code


def _report(name: str, message: str) -> None:
    """Print the error of a file as one line."""
    print(escape_line(f"{name}: {redact(message)}"), file=sys.stderr)


def _normalize(name: str, provider: str, *, events: bool) -> None:
    """Read one file and print its turn or its events."""
    with nullcontext(sys.stdin.buffer) if name == "-" else open(name, "rb") as source:
        parts = _read_parts(source)
        head = b""
        if provider == "auto":
            detected = None
            for part in parts:
                head += part
                detected = providers.detect(head)
                if detected is not None or len(head) >= _HEAD_SIZE:
                    break
            if detected is None:
                raise _NotAStreamError(_describe(head))
            provider = detected
        turn = Turn(provider)
        for part in itertools.chain([head] if head else [], parts):
            _print_events(name, turn.feed(part), events)
        _print_events(name, turn.close(), events)
    error = turn.error
    if error is not None and error.kind == "protocol_error" and not (turn.text or turn.reasoning or turn.calls):
        raise _NotAStreamError(f"not a stream of {provider}: {error.message}")
    if not events:
        _print_line({"file": name, **turn.to_dict()})


def _read_parts(source: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of a file as they arrive."""
    # read1 returns what is available, so that the events of a pipe are printed as they arrive.
    read = getattr(source, "read1", source.read)
    while part := read(_READ_SIZE):
        yield part


def _describe(head: bytes) -> str:
    """Return why no provider was detected from the first bytes."""
    if not head:
        return "the file is empty"
    begin = head[:60].decode("utf-8", "replace").splitlines()[0] if head.strip() else "white space"
    return f"not a stream of a known provider: it begins with {begin!r}. Name the provider with --provider"


def _print_events(name: str, events: Sequence[Event], is_wanted: bool) -> None:
    """Print the events, if they are wanted."""
    if is_wanted:
        for event in events:
            _output().write_json(
                to_json(event)[:-1] + b',"file":' + msgspec.json.encode(replace_lone_surrogates(name)) + b"}"
            )


def _print_line(data: dict[str, Any]) -> None:
    """Print an object as one line of JSON."""
    data["file"] = replace_lone_surrogates(data["file"])
    _output().write_json(msgspec.json.encode(data, enc_hook=str))


def _output() -> ProtectedStream:
    """Return standard output."""
    return sys.stdout if isinstance(sys.stdout, ProtectedStream) else ProtectedStream(sys.stdout, "standard output")
