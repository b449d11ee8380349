"""What the commands write: nothing that a model, a server, a file or a tool sends reaches a terminal unescaped.

A terminal obeys control characters in what it shows: they set the clipboard (OSC 52), change the title, move the cursor
over other lines and hide text; direction marks reorder it (https://trojansource.codes). ``escape_text`` makes all of
them visible as escapes, whether the output is a terminal or not, since a file may be shown later.

Every channel goes through it. ``protected`` replaces ``sys.stdout`` and ``sys.stderr`` while a command runs, so that
also tracebacks, warnings, log messages and what argparse prints are escaped; ``Notes`` is the one way to print in
colour. An error of an output is reported as ``OutputError``, so that it is not mistaken for one of a file that is read.
"""

from __future__ import annotations

import io
import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamkit.values.redaction import redact, redact_secrets

if TYPE_CHECKING:
    from rich.console import Console

    from streamkit.calls import ToolCall
    from streamkit.errors import StreamInterrupted
    from streamkit.events import Event
    from streamkit.execution import Run
    from streamkit.execution.run.notifications import ToolNotification
    from streamkit.tools import Tool

__all__ = [
    "QUESTION",
    "ConversationView",
    "Notes",
    "OutputError",
    "ProtectedStream",
    "RunPrinter",
    "describe_error",
    "escape_json_text",
    "escape_line",
    "escape_text",
    "format_question",
    "json_output",
    "protected",
    "raw_stream",
]

#: Categories of characters that a terminal does not show as they are: controls, formats (direction marks), surrogates,
#: private and unassigned ones, separators of lines and paragraphs.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MAX_SHOWN = 300  # characters of a tool's arguments or result that are printed
_MAX_KEPT = 4 * _MAX_SHOWN  # of the arguments' text, before white space is removed
_JOINERS = "\u200c\u200d"  # within words of several scripts and within emoji; they change nothing else


class OutputError(Exception):
    """An output cannot be written: the disk is full, or the reader of a pipe has closed it.

    It is no ``OSError``, so that it is neither mistaken for an error of a file that is read, nor handled by rich, which
    exits with 1 at a closed pipe.

    Attributes:
        name: the name of the output, such as "standard output".
        error: the operating system's error.
    """

    def __init__(self, name: str, error: OSError) -> None:
        self.name = name
        self.error = error
        super().__init__(f"{name} cannot be written: {error.strerror or error}")


def escape_text(text: str) -> str:
    """Return a text with every character escaped that a terminal does not show, except line ends and tabs."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c in "\n\t" else _escape(c) for c in text.replace("\r\n", "\n")])


def escape_line(text: str) -> str:
    """Return a text as one line: like ``escape_text``, and line ends and tabs are escaped too."""
    return text if text.isprintable() else "".join([c if c.isprintable() else _escape(c) for c in text])


def escape_json_text(text: str) -> str:
    r"""Return JSON with the same characters escaped as JSON does it, ``\u001b``. Line ends between values stay."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c == "\n" or not _is_invisible(c) else _escape_in_json(c) for c in text])


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in _INVISIBLE and character not in _JOINERS


def _escape(character: str) -> str:
    """Return the escape of an invisible character; spaces of other widths and joiners stay."""
    if not _is_invisible(character):
        return character
    number = ord(character)
    special = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(character)
    if special is not None:
        return special
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def _escape_in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


class ProtectedStream(io.TextIOBase):
    """An output that escapes what is written to it.

    Args:
        raw: the output.
        name: its name in errors.
        is_escaping: False if the writer escapes (rich, whose colours are control characters too).
    """

    def __init__(self, raw: Any, name: str, *, is_escaping: bool = True) -> None:
        self.raw = raw
        self.output_name = name
        self._is_escaping = is_escaping

    def write(self, text: str, /) -> int:
        """Write a text, escaped; also the characters that the output's encoding has not, such as cp1252 of Windows."""
        shown = escape_text(text) if self._is_escaping else text
        with self._errors():
            try:
                self.raw.write(shown)
            except UnicodeEncodeError:
                self.raw.write(shown.encode(self.encoding, "backslashreplace").decode(self.encoding))
        return len(text)

    def write_json(self, line: bytes) -> None:
        """Write one line of JSON at once, escaped as JSON."""
        data = escape_json_text(line.decode("utf-8", "surrogatepass")) + "\n"
        with self._errors():
            self.raw.flush()
            self.raw.buffer.write(data.encode())
            self.raw.buffer.flush()

    def flush(self) -> None:
        """Flush the output."""
        with self._errors():
            self.raw.flush()

    def close(self) -> None:
        """Leave the output open, which is the caller's; it may be closed already when this object is collected."""

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(self.output_name, error) from None

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether the output is a terminal."""
        return bool(self.raw.isatty())

    def fileno(self) -> int:
        """Return the output's file descriptor."""
        return int(self.raw.fileno())

    @property
    def encoding(self) -> str:  # type: ignore[override]  # of TextIOBase: an attribute
        """The output's encoding."""
        return str(self.raw.encoding)

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """How the output encodes characters that its encoding has not."""
        return getattr(self.raw, "errors", None)

    @property
    def buffer(self) -> Any:
        """The output for bytes. Only ``write_json`` may use it, which escapes."""
        raise AttributeError("this output takes text: bytes would not be escaped")


@contextmanager
def protected() -> Iterator[None]:
    """Escape all that is written to standard output and standard error, by whichever code."""
    outputs = sys.stdout, sys.stderr
    sys.stdout = _protect(sys.stdout, "standard output")
    sys.stderr = _protect(sys.stderr, "standard error")
    try:
        yield
    finally:
        sys.stdout, sys.stderr = outputs


def _protect(stream: Any, name: str) -> Any:
    return stream if stream is None or isinstance(stream, ProtectedStream) else ProtectedStream(stream, name)


def json_output() -> ProtectedStream:
    """Return standard output, for JSON, which is UTF-8 whatever the terminal's encoding is."""
    return sys.stdout if isinstance(sys.stdout, ProtectedStream) else ProtectedStream(sys.stdout, "standard output")


def raw_stream(stream: Any) -> Any:
    """Return an output without escaping, for a writer that escapes itself."""
    if isinstance(stream, ProtectedStream):
        return ProtectedStream(stream.raw, stream.output_name, is_escaping=False)
    return stream


class Notes:
    """Lines in colour, for people. Secrets in them are masked, and nothing in them is markup of rich.

    Args:
        stream: the output; None for standard error.
        secrets: texts that are masked, such as the key of the requests.
    """

    def __init__(self, stream: Any = None, *, secrets: Iterable[str] = ()) -> None:
        from rich.console import Console

        self.console: Console = Console(
            file=raw_stream(sys.stderr if stream is None else stream), highlight=False, emoji=False, markup=False
        )
        self._secrets = list(secrets)

    def clean(self, text: str) -> str:
        """Return a text without secrets."""
        return redact(redact_secrets(text, self._secrets))

    def print(self, text: str = "", style: str = "", *, end: str = "\n") -> None:
        """Print a text as one line."""
        self._write(escape_line(self.clean(text)), style, end)

    def write(self, text: str, style: str = "") -> None:
        """Write a part of a text with its own line ends, without ending the line."""
        self._write(escape_text(text), style, "")

    def _write(self, text: str, style: str, end: str) -> None:
        if style and self.console.color_system is not None:
            from rich.text import Text

            self.console.print(Text(text, style=style), end=end, soft_wrap=True)
        else:  # rich would write the same, in a third of a millisecond, which a server's next request waits for
            self.console.file.write(text + end)
            self.console.file.flush()


class ConversationView:
    """A run printed as it arrives: texts and the arguments of calls as they grow, then a line for each result."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: str | None = None  # what the open line shows: "text", or a call by its id

    def show(self, event: Event) -> None:
        """Print an event."""
        from streamkit import events

        match event:
            case events.Text(text):
                if self._open != "text":
                    self._start_line("model", "text")
                self._console.print(escape_text(text), end="", markup=False, soft_wrap=True)
            case events.ToolCallStart(call):
                self._grow(call.id, call.name, "", is_new=True)
            case events.ToolCallDelta(call, arguments_delta):
                self._grow(call.id, call.name, arguments_delta, is_new=self._open != call.id)
            case events.ArgumentsRestated(call, arguments_text):
                self._grow(call.id, call.name, arguments_text, is_new=True)
            case events.ToolCompleted(call, result) | events.ToolError(call, result):
                outcome = f"= {result.value}" if result.error is None else f"! {result.error}"
                outcome = outcome.replace(f"{call.name} failed with ", "")  # the line names the tool already
                arguments = json.dumps(result.call.arguments)
                self.print_line(
                    "tool", f"{call.name} {arguments} {outcome}", "green" if result.error is None else "red"
                )
            case events.Warned(code, message):
                self.print_line("warning", f"{code}: {message}", "yellow")
            case events.Failed(error):
                self.print_line("error", f"{error.kind}: {error.message}", "red")

    def _grow(self, call_id: str, name: str, text: str, *, is_new: bool) -> None:
        """Print the next part of a call's arguments, on a new line if another one is open."""
        if is_new:
            self._start_line("call", call_id)
            text = f"{name} {text}"
        self._console.print(escape_line(text), style="cyan", end="", markup=False, soft_wrap=True)

    def print_line(self, speaker: str, text: str, style: str = "") -> None:
        """Print a complete line."""
        self._start_line(speaker, "line")
        self._console.print(escape_line(redact(text)), style=style, end="", markup=False, soft_wrap=True)
        self.end_line()

    def _start_line(self, speaker: str, shown: str) -> None:
        self.end_line()
        self._console.print(f"{speaker:>7} ", style="dim", end="")
        self._open = shown

    def end_line(self) -> None:
        """End the line that is still open."""
        if self._open is not None:
            self._console.print()
        self._open = None


class RunPrinter:
    """Prints text to standard output, all else to standard error, each message on its own line."""

    def __init__(self, notes: Notes, tools: list[Tool]) -> None:
        from streamkit.execution.run.notifications import Notifier

        self._notes = notes
        self._notifier = Notifier(tools)
        self._is_line_open = False  # the last text did not end with a newline
        self._is_reasoning = False
        self._call_texts: dict[str, str] = {}  # name and arguments text of each call, by its id
        self._running: set[str] = set()  # ids

    def show(self, event: Event) -> None:
        """Print an event."""
        from streamkit import events

        match event:
            case events.Text(text) | events.Refusal(text):
                self._end_reasoning()
                sys.stdout.write(escape_text(text))
                sys.stdout.flush()
                self._is_line_open = not text.endswith("\n") if text else self._is_line_open
            case events.Reasoning(text):
                self.end_line(keep_reasoning=True)
                self._notes.write(text, "dim italic")
                self._is_reasoning = True
            case events.ToolCallStart(call):
                self.end_line()
                self._call_texts[call.id] = call.name + " "
            case events.ToolCallDelta(call, arguments_delta):
                shown = self._call_texts.get(call.id, f"{call.name} ")
                if len(shown) < _MAX_KEPT:  # more is not printed, and joining it again at each delta would be quadratic
                    self._call_texts[call.id] = shown + arguments_delta[:_MAX_KEPT]
            case events.ArgumentsRestated(call, arguments_text):
                self._call_texts[call.id] = f"{call.name} {arguments_text[:_MAX_KEPT]}"
            case events.Warned(code, message):
                self._note(f"warning: {code}: {message}", "yellow")
            case _:
                pass
        for notification in self._notifier.handle(event):
            self._print_notification(notification)

    def close(self, run: Run) -> None:
        """Print the outcome of the tools that were running when the run was closed."""
        from streamkit.history import ToolResponseBlock

        self.end_line()
        blocks = [block for content in run.contents for block in content.blocks]
        results = {block.call_id: block for block in blocks if isinstance(block, ToolResponseBlock)}
        lines = []
        for notification in self._notifier.close():
            result, label = results.get(notification.id), self._label(notification)
            if result is not None and result.status == "completed":  # its result was not yet reported
                lines.append((f"= {label}: {_brief(result.result)}", "green"))
            elif result is not None:
                lines.append((f"! {label}: {result.error}", "yellow"))
            elif notification.id in self._running:  # started early, in a response that is not in the history
                lines.append((f"! {label}: Canceled before it finished; its effects are not known.", "yellow"))
        if lines and self._notes.console.is_terminal:
            self._notes.print()  # the terminal has written ^C on the line
        for line, style in lines:
            self._note(line, style)

    def _print_notification(self, notification: ToolNotification) -> None:
        """Print the start, progress or result of a call."""
        label, result = self._label(notification), notification.result
        if notification.progress is not None:
            self._note(f"~ {label}: {_brief(notification.progress)}", "dim")
        elif notification.state == "running":
            self._running.add(notification.id)
            self._note(f"> {label}", "cyan")
        elif result is not None:
            self._running.discard(notification.id)
            if notification.state == "completed":
                self._note(f"= {label}: {_brief(result.value)}", "green")
            else:
                # The line names the tool already.
                reason = str(result.error).removeprefix(f"{notification.name} failed with ")
                self._note(f"! {label}: {reason}", "yellow")

    def _label(self, notification: ToolNotification) -> str:
        call_text = self._call_texts.get(notification.id, notification.name).rstrip()
        return _brief(notification.description or call_text.removesuffix(" {}"))

    def end_line(self, *, keep_reasoning: bool = False) -> None:
        """End the open line, so that the next text starts a new one."""
        if not keep_reasoning:
            self._end_reasoning()
        if self._is_line_open:
            print(flush=True)
            self._is_line_open = False

    def _end_reasoning(self) -> None:
        """End the line of reasoning, if one is open."""
        if self._is_reasoning:
            self._notes.print()
            self._is_reasoning = False

    def _note(self, line: str, style: str) -> None:
        """Print a line to standard error."""
        self.end_line()
        self._notes.print(line, style)


def _brief(value: Any) -> str:
    """Return a value as one short line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def describe_error(error: StreamInterrupted, url: str) -> str:
    """Return the error as one line."""
    stream_error = error.error
    text = f"{stream_error.kind.replace('_', ' ')}: {stream_error.message}"
    if stream_error.kind == "transport_error":
        text += f" ({url})"
    if stream_error.status is not None and str(stream_error.status) not in text:
        text += f" (HTTP status {stream_error.status})"
    if stream_error.retry_after is not None:
        text += f"; retry after {stream_error.retry_after:g} seconds"
    return text


#: The end of each question.
QUESTION = "run it? [y/N, or say why not] "
_MOST_SHOWN = 4000  # characters of the arguments
_END = 500  # of them, those at the end
_LONGEST_NAME = 128
_SPACES = re.compile(" {8,}")


def format_question(call: ToolCall) -> str:
    """Return the question, with the arguments, since a user must see them before they approve.

    Characters that a terminal does not show as such (escape sequences, line ends, direction marks) are escaped as in
    JSON, and so are long runs of spaces, which would move what follows to another line: the model must not be able to
    draw another question than the real one. Of long arguments the beginning and the end are shown, with the number of
    characters between them.
    """
    text = json.dumps(call.arguments, ensure_ascii=False, default=str)
    if len(text) > _MOST_SHOWN:
        hidden = len(text) - _MOST_SHOWN
        begin, end = text[: _MOST_SHOWN - _END], text[-_END:]
        shown = f"{_escape_question(begin)} [... {hidden} characters are not shown ...] {_escape_question(end)}"
    else:
        shown = _escape_question(text)
    return f"? {_escape_question(call.name[:_LONGEST_NAME])} {shown}\n  {QUESTION}"


def _escape_question(text: str) -> str:
    text = _SPACES.sub(lambda run: r"\u0020" * len(run[0]), text)
    return "".join([letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text])
