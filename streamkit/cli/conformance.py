"""Check how another client reads streams: every case over HTTP, and a report of what it got wrong.

The client is a command in any language. For each case it reads one line of JSON with a base URL, requests a stream
there, and prints one line of JSON with the calls and the text that its program would get. docs/conformance.md describes
both lines and the mistakes.

    streamkit conformance --wire openai_chat -- python my_adapter.py
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

import streamkit
from streamkit import providers
from streamkit.cli.terminal import OutputError, escape_line
from streamkit.errors import UsageError
from streamkit.reading.stream_file import create_private
from streamkit.testing.client_suite import FORMAT_VERSION, MISTAKES, ClientCase, judge, read_cases, served
from streamkit.values.redaction import redact

__all__ = ["FOLDERS", "configure", "run"]

_PACKAGE = Path(streamkit.__file__).parent
#: Where the cases are: beside the modules in a wheel, among the tests in a checkout.
FOLDERS = [_PACKAGE / "testing/cases", _PACKAGE.parent / "tests/conformance/cases", _PACKAGE.parent / "tests/recorded"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("client", nargs="*", metavar="-- COMMAND", help="the client, with its arguments")
    parser.add_argument("--provider", **several, metavar="NAME", help="run its cases; may be repeated")
    parser.add_argument("--wire", **several, metavar="NAME", help="run those of all providers with its wire")
    parser.add_argument("--case", default="*", metavar="PATTERN", help="only cases of such a name, as in a shell")
    parser.add_argument("--cases", **several, type=Path, metavar="FOLDER", help="with <provider>/<case>.json (our own)")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS", help="for a case (%(default)g)")
    parser.add_argument("--list", action="store_true", help="print the cases by what is special about them, and end")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write a report of every case, as JSON")


def run(options: argparse.Namespace) -> int:
    """Check the client; return 1 if it got a case wrong."""
    cases = _select(options)
    if options.list:
        _print_index(cases)
        return 0
    if not options.client:
        raise UsageError("give the command of the client after --, such as: -- python my_adapter.py")
    if not 0 < options.timeout < threading.TIMEOUT_MAX:
        raise UsageError(f"--timeout must be a number of seconds above 0, not {options.timeout}")
    rows = []
    with tempfile.TemporaryFile() as errors, served(cases) as base_urls:
        client = _Client(options.client, options.timeout, errors)
        try:
            for case in cases:
                tools = sorted({call["name"] for call in case.expected.get("calls", ()) if call.get("name")})
                identity = {"case": case.name, "provider": case.provider.name}
                line = client.read({**identity, "base_url": base_urls[case.name], "tools": tools})
                mistakes = [mistake._asdict() for mistake in judge(case, line)]
                evidence = {"about": case.fields["about"], "source": case.fields["source"], "quirks": case.quirks}
                rows.append({**identity, **evidence, "mistakes": mistakes, "expected": case.expected, "read": line})
        finally:
            client.close()
    if options.output is not None:
        made_by = {"version": FORMAT_VERSION, "streamkit": streamkit.__version__, "client": options.client}
        try:
            with create_private(options.output) as file:
                file.write(redact(json.dumps({**made_by, "cases": rows}, indent=1)).encode())
        except OSError as error:
            raise OutputError(str(options.output), error) from None
    _print_table(rows)
    return 1 if any(row["mistakes"] for row in rows) else 0


def _select(options: argparse.Namespace) -> list[ClientCase]:
    """Return the cases that the arguments select.

    Raises:
        UsageError: they select none, or a case cannot be read.
    """
    folders = options.cases or [folder for folder in FOLDERS if folder.is_dir()]
    packages = {providers.get(name).package for name in options.wire}
    names = {providers.get(name).name for name in options.provider}
    names |= {name for name in providers.names() if providers.get(name).package in packages}
    if not names and not options.list:
        raise UsageError("give what the client speaks: --provider NAME, or --wire NAME for all providers with its wire")
    try:
        cases = [case for folder in folders for case in read_cases(folder)]
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"a case cannot be read: {type(error).__name__}: {error}") from error
    cases = [case for case in cases if not names or case.provider.name in names]
    cases = [case for case in cases if any(fnmatch(name, options.case) for name in (case.name, Path(case.name).name))]
    if not cases:
        raise UsageError("no case is selected; --cases FOLDER gives others, --list without names lists all")
    return cases


class _Client:
    """The command: one process for all cases, started again after it has ended or has not printed a line in time."""

    def __init__(self, command: Sequence[str], timeout: float, errors: IO[bytes]) -> None:
        self._command, self._timeout, self._errors = list(command), timeout, errors
        self._process: subprocess.Popen[bytes] | None = None
        self._has_read = False

    def read(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the line that the command prints for a case; one with an error if it prints none.

        Raises:
            UsageError: the command cannot be started, or ends without a line for the first case.
        """
        process = self._process = self._process or self._start()
        timer = threading.Timer(self._timeout, _kill, [process])
        timer.start()
        with suppress(OSError):  # it has ended, as its output shows
            process.stdin.write(json.dumps(request).encode() + b"\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
        for text in iter(process.stdout.readline, b""):  # type: ignore[union-attr]
            with suppress(ValueError, RecursionError):  # what a library prints beside the lines
                line = json.loads(text)
                if isinstance(line, dict) and line.get("case") == request["case"]:
                    timer.cancel()
                    self._has_read = True
                    return line
        timer.cancel()
        self.close()
        self._errors.seek(0)
        messages = self._errors.read().decode("utf-8", "replace").split("\n")
        message = next((line for line in reversed(messages) if line.strip()), "it wrote no error")
        status = f"status {process.returncode}, after {self._timeout:g} seconds at most: {message[:500]}"
        if not self._has_read and process.returncode >= 0:  # not by a signal: it cannot even start
            raise UsageError(f"{self._command[0]} ended without a line for the first case, {status}")
        return {"error": f"the command ended without a line, {status}"}

    def close(self) -> None:
        """End the process: at the end of its input, or after a second by force."""
        if self._process is not None:
            process, self._process = self._process, None
            with suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
            _kill(process)
            process.wait()
            process.stdout.close()  # type: ignore[union-attr]

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        try:  # a session of its own, so that what a launcher such as npx starts ends with it
            return subprocess.Popen(  # noqa: S603 - the command that the user gave
                self._command, stdin=pipe, stdout=pipe, stderr=self._errors, start_new_session=True
            )
        except OSError as error:
            raise UsageError(f"{self._command[0]} cannot be started: {error.strerror or error}") from None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and, where the system has groups, what it has started."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print each mistake, and for each provider the number of cases with each kind of mistake."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        kinds = {mistake["kind"] for mistake in row["mistakes"]} or {"passed"}
        counts.setdefault(row["provider"], Counter()).update(["cases", *kinds])
        for mistake in row["mistakes"]:
            print(escape_line(redact(f"{row['case']}: {_title(mistake['kind'])}: {mistake['detail']}")))
    counts["all"] = sum(counts.values(), Counter[str]())
    width = max(map(len, ["provider", *counts]))
    columns = ["cases", "passed", *MISTAKES]
    print("", "  ".join(["provider".ljust(width), *map(_title, columns)]), sep="\n")
    for name, count in counts.items():
        cells = [str(count[column] or "").rjust(len(_title(column))) for column in columns]
        print("  ".join([name.ljust(width), *cells]).rstrip())


def _title(column: str) -> str:
    return "run though cut" if column == "cut" else column


def _print_index(cases: Sequence[ClientCase]) -> None:
    """Print the cases by their quirks."""
    index: dict[str, list[str]] = {}
    for case in cases:
        for quirk in case.quirks:
            index.setdefault(quirk, []).append(f"  {case.name}: {case.fields['about']}")
    for quirk, lines in sorted(index.items()):
        print(f"{quirk} ({len(lines)})", *map(escape_line, lines), sep="\n")
