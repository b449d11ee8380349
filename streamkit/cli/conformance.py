"""Check how another client reads streams: every case over HTTP, and a report of what it got wrong.

The client is a command in any language. For each case it reads one line of JSON with a base URL, requests a stream
there, and prints one line of JSON with the calls and the text that its program would get. What is expected is what the
cases (``streamkit.testing.conformance``) and the recorded streams state; a client is judged by what its program would
run and read. docs/conformance.md describes both lines and the mistakes. This module must not depend on a particular
provider or client, nor on an extra.

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, get_args
from zipfile import ZipFile

import streamkit
from streamkit import providers
from streamkit.cli.terminal import OutputError, escape_line
from streamkit.errors import UsageError
from streamkit.finishes import FINISH_ROWS
from streamkit.providers.provider import Provider
from streamkit.providers.writing.encoding import CONTENT_TYPES
from streamkit.reading.stream_file import create_private
from streamkit.testing.case import Case, cases_in
from streamkit.values.redaction import redact

__all__ = ["ARCHIVE", "FOLDERS", "MISTAKES", "configure", "run"]

_PACKAGE = Path(streamkit.__file__).parent
#: Where the cases are: in a wheel one archive beside the modules, in a checkout folders of the tests.
ARCHIVE = _PACKAGE / "testing/cases.zip"
FOLDERS = [_PACKAGE.parent / "tests/conformance/cases", _PACKAGE.parent / "tests/recorded"]
#: The version of the files of cases (``docs/case.schema.json``) and of reports.
FORMAT_VERSION = 1
MistakeKind = Literal["lost", "merged", "doubled", "cut", "changed", "invented", "text", "unnoticed", "failed"]
#: The kinds of mistakes, in the order of reports.
MISTAKES: tuple[MistakeKind, ...] = get_args(MistakeKind)
_EARLY = {reason for reason, row in FINISH_ROWS.items() if row.outcome is not None}
_TYPES = {".html": "text/html", ".json": "application/json", ".txt": "text/plain"}


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
    with tempfile.TemporaryFile() as errors, _serve_cases(cases) as base_urls:
        client = _Client(options.client, options.timeout, errors)
        try:
            for case in cases:
                tools = sorted({call["name"] for call in case.expected.get("calls", ()) if call.get("name")})
                identity = {"case": case.name, "provider": case.provider.name}
                line = client.read({**identity, "base_url": base_urls[case.name], "tools": tools})
                mistakes = [mistake._asdict() for mistake in _judge(case, line)]
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
    packages = {providers.get(name).package for name in options.wire}
    names = {providers.get(name).name for name in options.provider}
    names |= {name for name in providers.names() if providers.get(name).package in packages}
    if not names and not options.list:
        raise UsageError("give what the client speaks: --provider NAME, or --wire NAME for all providers with its wire")
    try:
        with tempfile.TemporaryDirectory() as unpacked:
            folders = options.cases or [folder for folder in FOLDERS if folder.is_dir()]
            if not folders:
                ZipFile(ARCHIVE).extractall(unpacked)
                folders = [Path(unpacked)]
            cases = [case for folder in folders for case in _read_cases(folder)]
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


# ---------------------------------------------------------------- cases, and a server of them


class Mistake(NamedTuple):
    """Something that a client got wrong: its kind, and the values."""

    kind: MistakeKind
    detail: str


class ClientCase(NamedTuple):
    """A stream and what a client has to read from it.

    Attributes:
        name: the provider and the name of the file, such as ``openai_chat/parallel-interleaved``.
        provider: the provider whose wire the stream has.
        fields: the fields of the case file, and the turn that it expects.
        data: the bytes of the response, and their content type.
    """

    name: str
    provider: Provider
    fields: Mapping[str, Any]
    expected: Mapping[str, Any]
    data: bytes
    content_type: str

    @property
    def executable(self) -> list[tuple[str, Any]]:
        """The name and arguments of the calls that have to run."""
        complete = [call for call in self.expected.get("calls", ()) if "state" not in call]
        return [(call["name"], _parse(call["arguments"])) for call in complete[: self.expected.get("executable", 0)]]

    @property
    def quirks(self) -> list[str]:
        """What is special about the stream: its warnings, its error, the states of its calls."""
        states = [call["state"] for call in self.expected.get("calls", ()) if "state" in call]
        quirks = [*self.expected.get("warnings", ()), *(f"{state} call" for state in states)]
        if self.expected.get("error"):
            quirks.append(f"error: {self.expected['error']}")
        if len(self.executable) > 1:
            quirks.append("parallel calls")
        if len(self.expected.get("calls", ())) - len(states) > len(self.executable):
            quirks.append("complete calls that must not run")
        return list(dict.fromkeys(quirks)) or ["regular stream"]


def _read_cases(folder: Path) -> Iterator[ClientCase]:
    """Yield the cases of a folder: ``<provider>/<case>.json``, or the recordings that its ``manifest.json`` lists.

    Left out is what this library alone has: options and limits of ``Turn``, input that is no bytes, and a source that
    reports an orderly end.

    Raises:
        OSError, ValueError: a file cannot be read.
    """
    if (manifest := folder / "manifest.json").exists():
        yield from (_recording(folder, entry) for entry in json.loads(manifest.read_text("utf-8")))
        return
    for provider in (providers.get(name) for name in providers.names()):
        for path in cases_in(folder / provider.name):
            case = Case(provider, path)
            fields = case.fields
            if fields.keys() & {"options", "limits", "complete"} or "bytes" not in fields.get("inputs", ["bytes"]):
                continue
            suffix = ".json" if "body" in fields else case.byte_files[0].suffix if case.byte_files else ""
            yield _case(provider, path.stem, fields, fields["expected"], case.data, suffix)


def _recording(folder: Path, entry: Mapping[str, Any]) -> ClientCase:
    """Return the case of a recorded stream. A call whose arguments are no object was truncated."""
    path, expected = folder / entry["file"], entry["expected"]
    calls = [
        call if isinstance(_parse(call["arguments"]), dict) else {**call, "state": "incomplete"}
        for call in expected["calls"]
    ]
    finish = None, expected.get("finish")  # the provider's word alone
    expected = {**expected, "calls": calls, "executable": sum("state" not in c for c in calls), "finish": finish}
    fields = {"about": f"a recorded stream of {path.parent.name}", "source": entry["source"]}
    provider = providers.get(path.parent.name)
    return _case(provider, f"recorded-{path.stem}", fields, expected, path.read_bytes(), path.suffix)


def _case(provider: Provider, stem: str, fields: Any, expected: Any, data: bytes, suffix: str) -> ClientCase:
    content_type = _TYPES.get(suffix, CONTENT_TYPES[provider.traits.framing])
    return ClientCase(f"{provider.name}/{stem}", provider, fields, expected, data, content_type)


class _Handler(BaseHTTPRequestHandler):
    """Responds to every POST below the name of a case with its stream, whatever its path and body are."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one write: the second of two waits 40 ms for the acknowledgement of the first
    cases: Mapping[str, ClientCase]

    def do_POST(self) -> None:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                self.rfile.read(size + 2)
            self.rfile.readline()
        self.rfile.read(int(self.headers.get("content-length") or 0))
        case = self.cases.get("/".join(self.path.partition("?")[0].split("/")[1:3]))
        if case is None:
            self.send_error(404, "the path does not begin with the name of a case")
            return
        headers = {"content-type": case.content_type, **case.fields.get("headers", {})}
        self.send_response(case.fields.get("status", 200))
        for name, value in {**headers, "transfer-encoding": "chunked", "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        if case.data:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(case.data), case.data))
        if "transport_error" not in case.fields:  # else the connection is closed within the response
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Ignore that a client left before the end."""


@contextmanager
def _serve_cases(cases: Sequence[ClientCase]) -> Iterator[dict[str, str]]:
    """Serve the streams of cases on loopback; yield the base URL of each case by its name."""
    handler = type("Handler", (_Handler,), {"cases": {case.name: case for case in cases}})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), name="streamkit.conformance")
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield {case.name: f"{address}/{case.name}{case.provider.traits.endpoint.sdk_base_path}" for case in cases}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# ---------------------------------------------------------------- what a client got wrong


def _judge(case: ClientCase, line: Mapping[str, Any]) -> list[Mistake]:
    """Return what a client got wrong; *line* is what it printed for the case."""
    calls, error, expected = line.get("calls") or [], line.get("error"), case.expected
    if not isinstance(calls, list) or not all(isinstance(c, dict) and isinstance(c.get("name"), str) for c in calls):
        return [Mistake("failed", f"calls must be a list of objects with a name, not {_short(calls)}")]
    mistakes = _judge_calls(case, [(call["name"], _parse(call.get("arguments"))) for call in calls])
    if error is not None:  # its program gets an exception, which is right if the response failed or ended early
        mistakes = [mistake for mistake in mistakes if mistake.kind != "lost"]
        is_early = expected.get("finish", ["stop"])[0] in _EARLY or any("state" in c for c in expected.get("calls", ()))
        return (
            mistakes
            if expected.get("error") or (is_early and not case.executable)
            else [Mistake("failed", _short(error)), *mistakes]
        )
    text, wanted = line.get("text"), expected.get("text") or ""
    if expected.get("error"):
        if line.get("finish") is not None:
            mistakes.append(Mistake("unnoticed", f"{expected['error']}, read as finish {_short(line['finish'])}"))
    elif isinstance(text, str) and text not in {wanted, wanted + (expected.get("refusal") or "")}:
        mistakes.append(Mistake("text", f"expected {_short(wanted)}, read {_short(text)}"))
    return mistakes


def _judge_calls(case: ClientCase, read: Sequence[tuple[str, Any]]) -> list[Mistake]:
    """Return the mistakes in calls. A call that was read stands for one expected call, for several, or for none."""
    expected, executable = case.expected.get("calls", ()), case.executable
    takes_text = {call.get("name") for call in expected if call.get("kind") == "custom"}
    # Of two calls of one name, the first may be executable and the second truncated.
    refused = {call.get("name") for call in expected if "state" in call or len(executable) == 0}
    mistakes, missing, others = [], list(executable), []
    for call in read:
        if call in missing:
            missing.remove(call)
        else:
            others.append(call)
    for name, arguments in others:
        shown = f"{name} {_short(arguments)}"
        if (name, arguments) in executable:
            mistakes.append(Mistake("doubled", shown))
        elif joined := _joined(name, arguments, missing):
            missing = [call for call in missing if call not in joined]
            mistakes.append(Mistake("merged", f"{len(joined)} calls became {shown}"))
        elif not isinstance(arguments, dict) and name not in takes_text:
            continue  # no program can run it; if it had to run, it is lost
        elif name in refused:
            mistakes.append(Mistake("cut", shown))
        elif same := [call for call in missing if call[0] == name]:
            missing.remove(same[0])
            mistakes.append(Mistake("changed", f"{shown} instead of {_short(same[0][1])}"))
        else:
            mistakes.append(Mistake("invented", shown))
    return mistakes + [Mistake("lost", f"{name} {_short(arguments)}") for name, arguments in missing]


def _joined(name: str, arguments: Any, missing: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the successive calls of which one was made: by their names, or the characters of their arguments."""
    for start in range(len(missing)):
        for end in range(start + 2, len(missing) + 1):
            calls = list(missing[start:end])
            characters = sum((_characters(call[1]) for call in calls), Counter[str]())
            is_one_of_them = any(name == call[0] for call in calls) and characters == _characters(arguments)
            if is_one_of_them or name == "".join(call[0] for call in calls):
                return calls
    return []


def _characters(arguments: Any) -> Counter[str]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return Counter("".join(text.split()))


def _parse(arguments: Any) -> Any:
    """Return arguments as an object; a text that is none unchanged. No arguments are an empty object."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        parsed = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def _short(value: Any, size: int = 120) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= size else f"{text[:size]}..."
