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
import os
import select
import shlex
import sys
import tempfile
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from streamkit import providers
from streamkit.bridges.http import HttpConnection, connect, find_key, request_url
from streamkit.bridges.prices import list_price, reported_cost
from streamkit.calls import ToolCall, Usage
from streamkit.cli.terminal import QUESTION, Notes, RunPrinter, describe_error, format_question
from streamkit.errors import StreamInterrupted, UsageError
from streamkit.execution.one_call.background import WorkerThread
from streamkit.history import Content, FileBlock, ImageBlock
from streamkit.reading.stream_file import create_private
from streamkit.tools import Approval, Tool, to_tools
from streamkit.values.media import media_type_of_name, sniff_media_type, to_data_url

if TYPE_CHECKING:
    import anyio
    from anyio.from_thread import BlockingPortal

    from streamkit.reading.turn import Turn

__all__ = ["QUESTION", "ChatHistory", "ask", "configure", "format_question", "open_mcp_tools", "read_attachment", "run"]

_MOST_ATTACHED = 30 * 1024 * 1024  # bytes; no provider takes more in a request
_MCP_START = 30.0  # seconds that a server may take to start
_CONTENTS = TypeAdapter(list[Content], config=ConfigDict(defer_build=True))  # every command imports this module
_STOPPED = 130  # the exit code after Ctrl-C
_COMMANDS = "/attach FILE adds a file to the next prompt, /exit or Ctrl-D ends the chat, Ctrl-C stops an answer"
_TERMINAL = "/dev/tty"
_LOOK = 0.1  # seconds between two looks at whether the question is over
_YES = ("y", "yes")
_NO = ("", "n", "no")
_NO_TERMINAL = "there is no terminal at which to ask for approval"


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
            self._notes.print(f"streamkit chat: {describe_error(error, self._url)}", "red")
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

        printer = RunPrinter(self._notes, self._tools)
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


class ChatHistory:
    """The conversation, and the file that keeps it.

    Args:
        path: the file, which is read if it exists, and written after each answer; None to keep nothing.

    Attributes:
        contents: the conversation.

    Raises:
        UsageError: the file cannot be read, or cannot be written later.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.contents: list[Content] = []
        if path is None:
            return
        try:
            self.contents = _CONTENTS.validate_json(path.read_bytes())
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise UsageError(f"--history {path}: there is no folder {path.parent}") from None
        except OSError as error:
            raise UsageError(f"--history {path}: the file cannot be read: {error.strerror or error}") from None
        except ValidationError as error:
            problem = error.errors()[0]
            reason = " ".join([".".join(map(str, problem["loc"])), problem["msg"]]).strip()
            raise UsageError(f"--history {path}: this is no history that `streamkit chat` wrote: {reason}") from None

    def set_system(self, text: str) -> None:
        """Set the system prompt, also of a conversation that has another one."""
        self.contents = [Content.system(text), *(each for each in self.contents if each.speaker != "system")]

    def add(self, contents: Sequence[Content]) -> None:
        """Add what was said, and write the file.

        Raises:
            UsageError: the file cannot be written; the conversation has the contents.
        """
        self.contents += contents
        if self._path is None:
            return
        unfinished = self._path.with_name(f".{self._path.name}.tmp")
        try:
            with create_private(unfinished) as file:
                file.write(_CONTENTS.dump_json(self.contents, indent=1) + b"\n")
            unfinished.replace(self._path)
        except OSError as error:
            raise UsageError(f"--history {self._path}: the file cannot be written: {error.strerror or error}") from None


def read_attachment(name: str) -> ImageBlock | FileBlock:
    """Return a file as the block of a message: an image, a document, or a text.

    Raises:
        UsageError: the file cannot be read, is too large, or is of no known type.
    """
    try:
        with Path(name).expanduser().open("rb") as file:
            data = file.read(_MOST_ATTACHED + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be attached: {error.strerror or error}") from None
    if len(data) > _MOST_ATTACHED:
        raise UsageError(f"{name} cannot be attached: it has more than {_MOST_ATTACHED >> 20} MB")
    media_type = sniff_media_type(data) or media_type_of_name(name)
    if media_type is None:
        try:
            data.decode()
        except UnicodeDecodeError:
            raise UsageError(f"{name} cannot be attached: its type is not known, and it is no text") from None
        media_type = "text/plain"
    encoded = b64encode(data).decode()
    if media_type.startswith("image/"):
        return ImageBlock(data=to_data_url(encoded, media_type))
    return FileBlock(media_type=media_type, data=encoded, name=Path(name).name)


@asynccontextmanager
async def open_mcp_tools(command: str) -> AsyncIterator[list[Tool]]:
    """Start an MCP server over its standard input and output; yield its tools, each call of which asks for approval.

    What the server writes to standard error is kept from the terminal, which would obey it.

    Raises:
        UsageError: the command cannot be started, or is no MCP server.
        ModuleNotFoundError: mcp is not installed.
    """
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    from streamkit.bridges.mcp import mcp_tools  # names the extra

    try:
        program, *arguments = shlex.split(command)
    except ValueError as error:  # of a quotation mark without its second one, or of nothing
        raise UsageError(f"--mcp must be a command such as 'npx -y server', not {command!r}: {error}") from None
    is_open = False
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            # Without the variables of the environment that are not usual, since they have the keys of providers.
            parameters = StdioServerParameters(command=program, args=arguments)
            async with stdio_client(parameters, errlog=log) as streams, ClientSession(*streams) as session:
                with anyio.fail_after(_MCP_START):
                    await session.initialize()
                    tools = await mcp_tools(session, approval="ask")
                is_open = True
                yield tools
        except Exception as error:
            if is_open:
                raise
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            log.seek(0)
            written = log.read().strip().splitlines()
            slow = f"it did not answer within {_MCP_START:.0f} s" if isinstance(error, TimeoutError) else str(error)
            reason = slow + (f"; it wrote: {written[-1]}" if written else "")
            raise UsageError(f"--mcp {command}: the server did not start: {reason}") from None


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


def _positive(text: str) -> int:
    """Parse a positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, not {text!r}")
    return int(text)


async def ask(call: ToolCall) -> Approval:
    """Ask the user at the terminal whether a call may run, and wait for a line.

    The question is written to the terminal itself, like that of ``sudo``: standard input may contain the prompt, and
    standard output may be a file. Without a terminal the call is denied.
    ``y`` and ``yes`` approve the call. Any other text denies it, and is the reason, except for ``n`` and ``no``.
    If this is cancelled, the line that comes next is not read: it is the next prompt of a chat.
    """
    is_over = threading.Event()
    try:
        line = await WorkerThread(lambda: _read_reply(format_question(call), is_over)).result()
    finally:
        is_over.set()
    if line is None:
        return Approval(allow=False, reason=_NO_TERMINAL)
    reply = line.strip()
    if reply.lower() in _YES:
        return Approval(allow=True)
    return Approval(allow=False, reason=None if reply.lower() in _NO else reply.rstrip("."))


def _read_reply(question: str, is_over: threading.Event) -> str | None:
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
        is_ready = os.name == "nt"  # where only sockets can be waited for
        while not is_ready:
            is_ready = bool(select.select([input_fd], [], [], _LOOK)[0])
            if is_over.is_set():
                return None
        line = os.read(input_fd, 4096)
        if not line.endswith(b"\n"):
            os.write(output_fd, b"\n")  # Ctrl-D
    except (OSError, ValueError):
        return None
    finally:
        if opened is not None:
            os.close(opened)
    return line.decode("utf-8", "replace")
