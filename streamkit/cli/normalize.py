"""Read recorded streams of any provider and print their turns.

The output is one JSON object for each file (text, reasoning, calls, finish, usage, error, warnings), or with --events
one event a line. The provider is detected from the first bytes. For a folder, all its files are read; - reads standard
input as it arrives.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import msgspec

from streamkit.cli.recordings import (
    NotAStreamError,
    add_provider_argument,
    check_provider_argument,
    detect_provider,
    read_parts,
)
from streamkit.cli.terminal import escape_line, json_output
from streamkit.events import Event, to_json
from streamkit.json_text import replace_lone_surrogates
from streamkit.reading.turn import Turn
from streamkit.values.redaction import redact

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a recorded stream, a folder of them, or - for stdin")
    add_provider_argument(parser)
    parser.add_argument("--events", action="store_true", help="print the events, one a line")


def run(options: argparse.Namespace) -> int:
    """Normalize each file; return 2 if one of them is not a stream."""
    check_provider_argument(options.provider)
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
            except NotAStreamError as error:
                _report(str(file), str(error))
                code = 2
    return code


def _report(name: str, message: str) -> None:
    """Print the error of a file as one line."""
    print(escape_line(f"{name}: {redact(message)}"), file=sys.stderr)


def _normalize(name: str, provider: str, *, events: bool) -> None:
    """Read one file and print its turn or its events."""
    with nullcontext(sys.stdin.buffer) if name == "-" else open(name, "rb") as source:
        provider, parts = detect_provider(provider, read_parts(source))
        turn = Turn(provider)
        for part in parts:
            _print_events(name, turn.feed(part), events)
        _print_events(name, turn.close(), events)
    error = turn.error
    if error is not None and error.kind == "protocol_error" and not (turn.text or turn.reasoning or turn.calls):
        raise NotAStreamError(f"not a stream of {provider}: {error.message}")
    if not events:
        line = {"file": replace_lone_surrogates(name), **turn.to_dict()}
        json_output().write_json(msgspec.json.encode(line, enc_hook=str))


def _print_events(name: str, events: Sequence[Event], is_wanted: bool) -> None:
    """Print the events, if they are wanted."""
    if is_wanted:
        for event in events:
            json_output().write_json(
                to_json(event)[:-1] + b',"file":' + msgspec.json.encode(replace_lone_surrogates(name)) + b"}"
            )
