"""Talk with a real provider's model, with your own tools.

The response is written to standard output as it arrives, tools and warnings to standard error. The key is read from the
provider's usual environment variable. For example:

  streamkit chat --provider anthropic --model claude-sonnet-5 --tool mytools:get_weather "Weather in Oslo?"

where mytools.py is in the current folder and get_weather is a function with type annotations and a docstring. Before a
tool with approval="ask" runs, and before any tool of an MCP server, the command asks you at the terminal.

Without PROMPT, each line is a prompt, and `/attach FILE` adds a file to the next one. Ctrl-C stops the answer, Ctrl-D
ends the chat. With --history FILE the conversation is continued where the file ends, with any provider.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import threading
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkit import providers
from streamkit.bridges.http import HttpConnection, connect, find_key, request_url
from streamkit.bridges.prices import list_price, reported_cost
from streamkit.calls import ToolCall, Usage
from streamkit.cli.approval import ask
from streamkit.cli.chat_files import ChatHistory, open_mcp_tools, read_attachment
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
from streamkit.history import Content, FileBlock, ImageBlock
from streamkit.tools import Approval, Tool, to_tools

if TYPE_CHECKING:
    import anyio
    from anyio.from_thread import BlockingPortal

    from streamkit.execution import Run
    from streamkit.execution.run.notifications import ToolNotification
    from streamkit.reading.turn import Turn

__all__ = ["configure", "run"]

_MAX_SHOWN = 300  # characters of a tool's arguments or result that are printed
_MAX_KEPT = 4 * _MAX_SHOWN  # of the arguments' text, before white space is removed
_STOPPED = 130  # the exit code after Ctrl-C
_COMMANDS = "/attach FILE adds a file to the next prompt, /exit or Ctrl-D ends the chat, Ctrl-C stops an answer"


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
    parser.add_argument(
        "--mcp", action="append", default=[], metavar="COMMAND", help="the tools of an MCP server that this starts"
    )
    parser.add_argument(
        "--attach", action="append", default=[], metavar="FILE", help="an image, document or text of the first prompt"
    )
    parser.add_argument(
        "--history", type=Path, metavar="FILE", help="continue the conversation in this file, and keep it there"
    )
    parser.add_argument("--system", metavar="TEXT", help="the system prompt")
    parser.add_argument("--max-tokens", type=_positive, metavar="N", help="the maximum number of tokens of a response")
    parser.add_argument(
        "prompt", nargs="?", metavar="PROMPT", help="the prompt; - reads it from standard input; without it, you chat"
    )


def run(options: argparse.Namespace) -> int:
    """Run the conversation; return 1 if it did not end with a response."""
    from anyio.from_thread import start_blocking_portal

    endpoint = providers.get(options.provider).traits.endpoint
    settings = {"max_output_tokens": options.max_tokens}
    connection = connect(options.provider, model=options.model, base_url=options.base_url, settings=settings)
    tools = [_load(spec) for spec in options.tool]
    history = ChatHistory(options.history)
    if options.system:
        history.set_system(options.system)
    attached = [read_attachment(name) for name in options.attach]
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    if prompt is not None and not prompt.strip():
        raise UsageError("the prompt is empty: pass a text, or - and a text on standard input")
    notes = Notes(secrets=[find_key(endpoint) or ""])
    with start_blocking_portal() as portal, ExitStack() as servers:
        for command in options.mcp:
            opened = portal.wrap_async_context_manager(open_mcp_tools(command))
            tools += servers.enter_context(opened)
        url = request_url(endpoint, options.model, options.base_url)
        chat = _Chat(portal, connection, url, tools, history, notes)
        return chat.talk(attached) if prompt is None else chat.answer(Content.human(prompt, *attached))


class _Chat:
    """A conversation whose answers run in an event loop of another thread, so that Ctrl-C reaches this one."""

    def __init__(
        self,
        portal: BlockingPortal,
        connection: HttpConnection,
        url: str,
        tools: list[Tool],
        history: ChatHistory,
        notes: Notes,
    ) -> None:
        self._portal = portal
        self._connection = connection
        self._url = url
        self._tools = tools
        self._history = history
        self._notes = notes
        self._is_talk = False
        self._scope: anyio.CancelScope | None = None  # of the answer
        self._is_ended = threading.Event()
        self._is_ended.set()
        self._cost = 0.0  # of all answers

    def talk(self, attached: list[ImageBlock | FileBlock]) -> int:
        """Answer each line of standard input until its end."""
        with suppress(ImportError):  # not on Windows; with it, a line can be edited and an earlier one recalled
            import readline  # noqa: F401
        self._is_talk = True
        is_terminal = sys.stdin.isatty()
        if is_terminal:
            before = f"{len(self._history.contents)} messages before. " if self._history.contents else ""
            self._notes.print(before + _COMMANDS, "dim")
        while True:
            try:
                line = input("> " if is_terminal else "").strip()
            except EOFError:
                if is_terminal:
                    self._notes.print()
                return 0
            except KeyboardInterrupt:
                self._notes.print()
                if not is_terminal:
                    return _STOPPED
                self._notes.print("(Ctrl-D ends the chat)", "dim")
                continue
            word, _, rest = line.partition(" ")
            if word == "/exit":
                return 0
            try:
                if word == "/attach":
                    attached.append(read_attachment(rest.strip()))
                elif word.startswith("/") and word[1:].isalpha():
                    self._notes.print(f"there is no command {word}: {_COMMANDS}", "yellow")
                elif line:
                    content, attached = Content.human(line, *attached), []
                    self.answer(content)
            except UsageError as error:
                self._notes.print(f"streamkit chat: {error}", "red")

    def answer(self, prompt: Content) -> int:
        """Print the answer to a prompt, and add both to the history; return the exit code."""
        import httpx

        answered: Future[int] | None = None
        try:
            try:
                answered = self._portal.start_task_soon(self._run_answer, prompt)
                return answered.result()
            except KeyboardInterrupt:
                self._portal.call(self._stop)
                self._is_ended.wait()  # a second Ctrl-C ends the program
                if answered is not None:
                    answered.result()
        except StreamInterrupted as error:
            self._notes.print(f"streamkit chat: {_describe_error(error, self._url)}", "red")
            return 1
        except httpx.HTTPError as error:
            self._notes.print(f"streamkit chat: {self._url}: {error or type(error).__name__}", "red")
            return 1
        if self._is_talk:
            self._notes.print("(stopped)", "dim")
        return _STOPPED

    async def _run_answer(self, prompt: Content) -> int:
        """Answer a prompt in a scope that `_stop` cancels; return the exit code."""
        import anyio

        self._is_ended.clear()
        try:
            with anyio.CancelScope() as self._scope:
                return await self._converse(prompt)
            return _STOPPED
        finally:
            self._is_ended.set()

    def _stop(self) -> None:
        """Cancel the answer, in its event loop; one that was started before this has begun there."""
        if self._scope is not None:
            self._scope.cancel()

    async def _converse(self, prompt: Content) -> int:
        """Run the conversation and print it; return the exit code."""
        import anyio

        from streamkit.execution import Budget, run_loop

        printer = _Printer(self._notes, self._tools)
        terminal = anyio.Lock()  # nothing may be printed between a question and its reply
        costs: list[float | None] = []

        async def approve(call: ToolCall, _: Any) -> Approval:
            async with terminal:
                printer.end_line()
                return await ask(call)

        def price(turn: Turn) -> float:
            reported = reported_cost(turn.usage)
            costs.append(reported if reported is not None else list_price(turn))
            return costs[-1] or 0.0

        chat_run = run_loop(
            self._connection,
            tools=self._tools,
            history=[*self._history.contents, prompt],
            approve=approve,
            budget=Budget(price=price),
        )
        try:
            async with chat_run:
                async for event in chat_run:
                    async with terminal:
                        printer.show(event)
        finally:
            printer.close(chat_run)
            if chat_run.contents:  # a prompt without any is not in the history, so that it can be asked again
                self._history.add([prompt, *chat_run.contents])
            self._print_cost(chat_run.usage, costs)
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
            self._notes.print(f"streamkit chat: {reason}", "red")
            return 1
        return 0

    def _print_cost(self, usage: Usage | None, costs: list[float | None]) -> None:
        """Print the tokens and the cost of an answer; without its cost only in a chat of several answers."""
        cost = None if None in costs or not costs else sum(each for each in costs if each is not None)
        self._cost += cost or 0.0
        if usage is None or (cost is None and not self._is_talk):
            return
        figures = [
            f"{count:,} {name}" for name in ("in", "out") if (count := getattr(usage, f"{name}put_tokens")) is not None
        ]
        if cost is not None:
            figures.append(f"${cost:.6f}".rstrip("0"))
            if self._cost > cost:
                figures.append(f"${self._cost:.6f}".rstrip("0") + " in all")
        self._notes.print(f"[{', '.join(figures)}]", "dim")


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
