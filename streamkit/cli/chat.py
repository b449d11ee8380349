"""Send a prompt to a real provider, with your own tools.

The response is written to standard output as it arrives, tools and warnings to standard error. The key is read from the
provider's usual environment variable. For example:

  streamkit chat --provider anthropic --model claude-sonnet-5 --tool mytools:get_weather "Weather in Oslo?"

where mytools.py is in the current folder and get_weather is a function with type annotations and a docstring. Before a
tool with approval="ask" runs, the command asks you at the terminal.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from streamkit import providers
from streamkit.bridges.http import HttpConnection, connect, find_key, request_url
from streamkit.calls import ToolCall
from streamkit.cli.terminal import Notes, escape_text
from streamkit.errors import StreamInterrupted, UsageError
from streamkit.events import (
    ArgumentsRestated,
    Event,
    Reasoning,
    Refusal,
    Text,
    ToolCallDelta,
    ToolCallStart,
    Warned,
)
from streamkit.execution.one_call.background import WorkerThread
from streamkit.tools import Approval, Tool, to_tools

if TYPE_CHECKING:
    from streamkit.execution import Run
    from streamkit.execution.run.notifications import ToolNotification

__all__ = [
    "QUESTION",
    "ask",
    "configure",
    "format_question",
    "run",
]

_MAX_SHOWN = 300  # characters of a tool's arguments or result that are printed
_MAX_KEPT = 4 * _MAX_SHOWN  # of the arguments' text, before white space is removed


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--provider", required=True, metavar="NAME", help=f"one of {', '.join(providers.names())}")
    parser.add_argument("--model", required=True, metavar="MODEL", help="the provider's name of the model")
    parser.add_argument("--base-url", metavar="URL", help="another base URL, as the provider's own SDK takes it")
    parser.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="MODULE:FUNCTION",
        help="a tool for the model: a typed function or a streamkit Tool; repeat it for more tools",
    )
    parser.add_argument("--system", metavar="TEXT", help="the system prompt")
    parser.add_argument("--max-tokens", type=_positive, metavar="N", help="the maximum number of tokens of a response")
    parser.add_argument("prompt", metavar="PROMPT", help="the prompt; - reads it from standard input")


def run(options: argparse.Namespace) -> int:
    """Run the conversation; return 1 if it did not end with a response."""
    import anyio
    import httpx

    endpoint = providers.get(options.provider).traits.endpoint
    settings = {"max_output_tokens": options.max_tokens}
    connection = connect(options.provider, model=options.model, base_url=options.base_url, settings=settings)
    url = request_url(endpoint, options.model, options.base_url)
    tools = [_load(spec) for spec in options.tool]
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    if not prompt.strip():
        raise UsageError("the prompt is empty: pass a text, or - and a text on standard input")
    notes = Notes(secrets=[find_key(endpoint) or ""])
    try:
        return anyio.run(_converse, connection, tools, prompt, options.system, notes)
    except StreamInterrupted as error:
        notes.print(f"streamkit chat: {_describe_error(error, url)}", "red")
    except httpx.HTTPError as error:
        notes.print(f"streamkit chat: {url}: {error or type(error).__name__}", "red")
    return 1


async def _converse(
    connection: HttpConnection, tools: list[Tool], prompt: str, system: str | None, notes: Notes
) -> int:
    """Run the conversation and print it; return the exit code."""
    import anyio

    from streamkit.execution import run_loop
    from streamkit.history import Content

    history = [*([Content.system(system)] if system else []), Content.human(prompt)]
    printer = _Printer(notes, tools)
    terminal = anyio.Lock()  # nothing may be printed between a question and its reply

    async def approve(call: ToolCall, _: Any) -> Approval:
        async with terminal:
            printer.end_line()
            return await ask(call)

    chat_run = run_loop(connection, tools=tools, history=history, approve=approve)
    try:
        async with chat_run:
            async for event in chat_run:
                async with terminal:
                    printer.show(event)
    finally:
        printer.close(chat_run)
    if chat_run.ended != "answered":
        reason = {
            "max_rounds": "the model still called tools in the last allowed round",
            "length": "the response was truncated at the maximum number of tokens; raise --max-tokens",
            "filtered": "the provider's content filter stopped the response",
            "refusal": "the model refused to respond",
            "breaker": "the model repeated calls that fail",
            "awaiting_results": "the model asked for what this client cannot do: "
            + ", ".join(call.name for call in chat_run.pending),
        }.get(str(chat_run.ended), str(chat_run.ended))
        notes.print(f"streamkit chat: {reason}", "red")
        return 1
    return 0


class _Printer:
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
        match event:
            case Text(text) | Refusal(text):
                self._end_reasoning()
                sys.stdout.write(escape_text(text))
                sys.stdout.flush()
                self._is_line_open = not text.endswith("\n") if text else self._is_line_open
            case Reasoning(text):
                self.end_line(keep_reasoning=True)
                self._notes.write(text, "dim italic")
                self._is_reasoning = True
            case ToolCallStart(call):
                self.end_line()
                self._call_texts[call.id] = call.name + " "
            case ToolCallDelta(call, arguments_delta):
                shown = self._call_texts.get(call.id, f"{call.name} ")
                if len(shown) < _MAX_KEPT:  # more is not printed, and joining it again at each delta would be quadratic
                    self._call_texts[call.id] = shown + arguments_delta[:_MAX_KEPT]
            case ArgumentsRestated(call, arguments_text):
                self._call_texts[call.id] = f"{call.name} {arguments_text[:_MAX_KEPT]}"
            case Warned(code, message):
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


def _load(spec: str) -> Tool:
    """Return the tool that ``module:function`` names; the working directory is searched for modules too."""
    module_name, _, attributes = spec.partition(":")
    if not module_name or not attributes:
        raise UsageError(f"--tool must be module:function, such as mytools:get_weather, not {spec!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        value: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(f"--tool {spec}: {error}") from None
    for attribute in attributes.split("."):
        if not hasattr(value, attribute):
            raise UsageError(f"--tool {spec}: the module {module_name} has no {attribute}")
        value = getattr(value, attribute)
    try:
        (loaded,) = to_tools([value]).values()
    except UsageError as error:
        raise UsageError(f"--tool {spec}: {error}") from None
    return loaded


def _brief(value: Any) -> str:
    """Return a value as one short line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def _describe_error(error: StreamInterrupted, url: str) -> str:
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


def _positive(text: str) -> int:
    """Parse a positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, not {text!r}")
    return int(text)


#: The end of each question.
QUESTION = "run it? [y/N, or say why not] "
_TERMINAL = "/dev/tty"
_MOST_SHOWN = 4000  # characters of the arguments
_END = 500  # of them, those at the end
_LONGEST_NAME = 128
_SPACES = re.compile(" {8,}")
_YES = ("y", "yes")
_NO = ("", "n", "no")
_NO_TERMINAL = "there is no terminal at which to ask for approval"


async def ask(call: ToolCall) -> Approval:
    """Ask the user at the terminal whether a call may run, and wait for a line.

    The question is written to the terminal itself, like that of ``sudo``: standard input may contain the prompt, and
    standard output may be a file. Without a terminal the call is denied.
    ``y`` and ``yes`` approve the call. Any other text denies it, and is the reason, except for ``n`` and ``no``.
    If this is cancelled, the thread that waits for the line remains until the program ends.
    """
    line = await WorkerThread(lambda: _read_reply(format_question(call))).result()
    if line is None:
        return Approval(allow=False, reason=_NO_TERMINAL)
    reply = line.strip()
    if reply.lower() in _YES:
        return Approval(allow=True)
    return Approval(allow=False, reason=None if reply.lower() in _NO else reply.rstrip("."))


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
        shown = f"{_escape(begin)} [... {hidden} characters are not shown ...] {_escape(end)}"
    else:
        shown = _escape(text)
    return f"? {_escape(call.name[:_LONGEST_NAME])} {shown}\n  {QUESTION}"


def _escape(text: str) -> str:
    text = _SPACES.sub(lambda run: r"\u0020" * len(run[0]), text)
    return "".join([letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text])


def _read_reply(question: str) -> str | None:
    """Write the question and read one line; return None without a terminal. This function blocks.

    It reads the file descriptor, never ``sys.stdin``: a thread that still reads ``sys.stdin`` when the interpreter ends
    has its lock, which is a fatal error (clustershell/clustershell#461).
    """
    opened = None
    try:
        try:
            input_fd = output_fd = opened = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY)
        except (OSError, AttributeError):  # the process has no terminal; Windows has no such path and flag
            if sys.stdin is None or not sys.stdin.isatty():
                return None
            input_fd, output_fd = sys.stdin.fileno(), 2
        with suppress(ImportError, OSError):  # no termios on Windows
            import termios

            with suppress(termios.error):  # what was typed before the question is no reply to it
                termios.tcflush(input_fd, termios.TCIFLUSH)
        os.write(output_fd, question.encode("utf-8", "backslashreplace"))
        line = os.read(input_fd, 4096)
        if not line.endswith(b"\n"):
            os.write(output_fd, b"\n")  # Ctrl-D
    except (OSError, ValueError):
        return None
    finally:
        if opened is not None:
            os.close(opened)
    return line.decode("utf-8", "replace")
