"""Ask a real provider, with tools of your own.

The answer goes to standard output as it comes, tools and warnings to standard error. The key is taken from the
provider's usual environment variable. For example:

  streamkit chat --provider anthropic --model claude-sonnet-4-5 --tool mytools:get_weather "Weather in Oslo?"

where mytools.py is in this folder and get_weather is a function with type annotations and a docstring. Before a tool
with approval="ask" runs, you are asked at the terminal.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import TYPE_CHECKING, Any

from streamkit import providers
from streamkit.calls import CallRef, ToolCall
from streamkit.cli.connection import find_key, request_headers, request_settings, request_url
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

if TYPE_CHECKING:
    from rich.console import Console

    from streamkit.execution import Run
    from streamkit.execution.notifications import ToolNotification
    from streamkit.tools import Approval, Tool

__all__ = ["configure", "run"]

_SHOWN = 300  # characters of a tool's arguments or result that are shown


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--provider", required=True, metavar="NAME", help=", ".join(providers.names()))
    parser.add_argument("--model", required=True, metavar="MODEL", help="the provider's name of the model")
    parser.add_argument("--base-url", metavar="URL", help="another address, as the provider's own SDK takes it")
    parser.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="MODULE:FUNCTION",
        help="a tool for the model: a typed function, or a streamkit Tool; may be given again",
    )
    parser.add_argument("--system", metavar="TEXT", help="an instruction to the model")
    parser.add_argument("--max-tokens", type=_positive, metavar="N", help="the most tokens of an answer")
    parser.add_argument("prompt", metavar="PROMPT", help="what to ask; - reads it from standard input")


def run(options: argparse.Namespace) -> int:
    """Hold the conversation; 1 where it did not end with an answer."""
    import anyio
    import httpx
    from rich.console import Console

    name = providers.get(options.provider).name
    endpoint = providers.get(name).traits.endpoint
    url = request_url(endpoint, options.model, options.base_url)
    key = find_key(endpoint)
    if key is None and endpoint.key_required and options.base_url is None:
        raise UsageError(f"no key: set {' or '.join(endpoint.key_variables)}")
    tools = [_load(spec) for spec in options.tool]
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    if not prompt.strip():
        raise UsageError("the prompt is empty")
    body = request_settings(endpoint, options.model, options.max_tokens)
    notes = Console(stderr=True, highlight=False)
    try:
        return anyio.run(
            lambda: _converse(name, url, request_headers(endpoint, key), body, tools, prompt, options.system, notes)
        )
    except StreamInterrupted as error:
        notes.print(f"streamkit chat: {_sentence(error, url)}", style="red", markup=False, soft_wrap=True)
    except httpx.HTTPError as error:
        notes.print(
            f"streamkit chat: {url}: {error or type(error).__name__}", style="red", markup=False, soft_wrap=True
        )
    return 1


async def _converse(
    provider: str,
    url: str,
    headers: dict[str, str],
    settings: dict[str, Any],
    tools: list[Tool],
    prompt: str,
    system: str | None,
    notes: Console,
) -> int:
    import anyio
    import httpx

    from streamkit.cli import approval
    from streamkit.execution import run_loop
    from streamkit.history import Content

    history = [*([Content.system(system)] if system else []), Content.human(prompt)]
    # A model may think for minutes before its first byte; who waits too long presses Ctrl-C.
    async with httpx.AsyncClient(timeout=httpx.Timeout(30.0, read=600.0), headers=headers) as http:

        async def ask(context: Any) -> Any:
            return http.stream("POST", url, json=_merged(settings, context.request))

        printer = _Printer(notes, tools)
        floor = anyio.Lock()  # who has it writes: nothing stands between a question and its answer

        async def approve(call: ToolCall, _: Any) -> Approval:
            async with floor:
                printer.end_line()
                return await approval.ask(call)

        conversation = run_loop(ask, provider=provider, tools=tools, history=history, approve=approve)
        try:
            async with conversation:
                async for event in conversation:
                    async with floor:
                        printer.show(event)
        finally:
            printer.close(conversation)
    if conversation.ended != "answered":
        why = {
            "max_rounds": "the model still called tools in the last round that was allowed",
            "length": "the answer was cut at its greatest length (--max-tokens)",
            "filtered": "the provider's filter stopped the answer",
            "refusal": "the model refused",
            "breaker": "the model repeated calls that fail",
        }.get(str(conversation.ended), str(conversation.ended))
        notes.print(f"streamkit chat: {why}", style="red", markup=False, soft_wrap=True)
        return 1
    return 0


class _Printer:
    """Text to standard output, all else to standard error, each line begun on a line of its own."""

    def __init__(self, notes: Console, tools: list[Tool]) -> None:
        from streamkit.execution.notifications import Notifier

        self._notes = notes
        self._notifier = Notifier(tools)
        self._open = False  # text stands on the line and no newline behind it
        self._thinking = False
        self._asked: dict[str, str] = {}  # each call as the model wrote it, by its id
        self._running: set[str] = set()  # ids

    def show(self, event: Event) -> None:
        match event:
            case Text(text) | Refusal(text):
                self._note_ends()
                sys.stdout.write(text)
                sys.stdout.flush()
                self._open = not text.endswith("\n") if text else self._open
            case Reasoning(text):
                self.end_line(keep_thinking=True)
                self._notes.print(text, end="", style="dim italic", markup=False, soft_wrap=True)
                self._thinking = True
            case ToolCallStart(call):
                self.end_line()
                self._asked[call.id] = call.name + " "
            case ToolCallDelta(call, arguments_delta):
                self._asked[call.id] = self._call(call) + arguments_delta
            case ArgumentsRestated(call, arguments_text):
                self._asked[call.id] = f"{call.name} {arguments_text}"
            case Warned(code, message):
                self._note(f"warning: {code}: {message}", "yellow")
            case _:
                pass
        for notification in self._notifier.handle(event):
            self._tell(notification)

    def close(self, conversation: Run) -> None:
        """The run was left, perhaps in the middle: say what became of the tools that ran."""
        from streamkit.history import ToolResponseBlock

        self.end_line()
        blocks = [block for content in conversation.contents for block in content.blocks]
        results = {block.call_id: block for block in blocks if isinstance(block, ToolResponseBlock)}
        lines = []
        for left in self._notifier.close():
            result, label = results.get(left.id), self._label(left)
            if result is not None and result.status == "completed":  # it ended, and nobody had heard of it yet
                lines.append((f"= {label}: {_brief(result.result)}", "green"))
            elif result is not None:
                lines.append((f"! {label}: {result.error}", "yellow"))
            elif left.id in self._running:  # begun early, in an answer that is not in the history
                lines.append(
                    (f"! {label}: Canceled before it had finished; nothing is known of its effects.", "yellow")
                )
        if lines and self._notes.is_terminal:
            self._notes.print()  # the terminal's own ^C stands on the line
        for line, style in lines:
            self._note(line, style)

    def _tell(self, told: ToolNotification) -> None:
        label, result = self._label(told), told.result
        if told.progress is not None:
            self._note(f"~ {label}: {_brief(told.progress)}", "dim")
        elif told.state == "running":
            self._running.add(told.id)
            self._note(f"> {label}", "cyan")
        elif result is not None:
            self._running.discard(told.id)
            if told.state == "completed":
                self._note(f"= {label}: {_brief(result.value)}", "green")
            else:
                # The line names the tool already.
                why = str(result.error).removeprefix(f"{told.name} failed with ")
                self._note(f"! {label}: {why}", "yellow")

    def _label(self, told: ToolNotification) -> str:
        return _brief(told.description or self._asked.get(told.id, f"{told.name} "))

    def _call(self, call: CallRef) -> str:
        return self._asked.get(call.id, f"{call.name} ")

    def end_line(self, *, keep_thinking: bool = False) -> None:
        if not keep_thinking:
            self._note_ends()
        if self._open:
            print(flush=True)
            self._open = False

    def _note_ends(self) -> None:
        if self._thinking:
            self._notes.print()
            self._thinking = False

    def _note(self, line: str, style: str) -> None:
        self.end_line()
        self._notes.print(line, style=style, markup=False, soft_wrap=True)


def _load(spec: str) -> Tool:
    """The tool that ``module:function`` names; modules of the working directory are found too."""
    from streamkit.tools import to_tools

    module_name, _, attributes = spec.partition(":")
    if not module_name or not attributes:
        raise UsageError(f"--tool takes module:function, not {spec!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(f"--tool {spec}: {error}") from None
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise UsageError(f"--tool {spec}: there is no {attribute} in {module_name}")
        found = getattr(found, attribute)
    try:
        (made,) = to_tools([found]).values()
    except UsageError as error:
        raise UsageError(f"--tool {spec}: {error}") from None
    return made


def _merged(settings: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """The two as one body; objects under the same name are joined."""
    merged = dict(settings)
    for name, value in request.items():
        before = merged.get(name)
        merged[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _sentence(error: StreamInterrupted, url: str) -> str:
    said = error.error
    text = f"{said.kind.replace('_', ' ')}: {said.message}"
    if said.kind == "transport_error":
        text += f" ({url})"
    if said.status is not None and str(said.status) not in text:
        text += f" (HTTP status {said.status})"
    if said.retry_after is not None:
        text += f"; it asks to wait {said.retry_after:g} seconds"
    return text


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 is wanted, not {text!r}")
    return int(text)
