"""One conversation on the terminal: what the model says as it comes, its tools side by side.

It knows rich and the events; not who asks, nor on which wire.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text as Styled

from streamkit.calls import CallRef
from streamkit.events import (
    ArgumentsRestated,
    Event,
    Failed,
    Text,
    ToolCallDelta,
    ToolCallStart,
    ToolCanceled,
    ToolCompleted,
    ToolDenied,
    ToolError,
    ToolRunning,
    ToolTimedOut,
    Warned,
)

__all__ = ["ConversationView"]

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@dataclass(slots=True)
class _Row:
    who: str
    text: str = ""
    state: str = ""  # of a tool: "asked", "running", "done", "failed"
    outcome: str = ""


class ConversationView:
    """What was said so far, as rows of who and what. Show it with rich, live or once.

    Args:
        question: what the user asked.
    """

    def __init__(self, question: str) -> None:
        self._rows = [_Row("you", question)]
        self._calls: dict[str, _Row] = {}

    def show(self, event: Event) -> None:
        """Take what an event says."""
        match event:
            case Text(text):
                if self._rows[-1].who != "model":
                    self._rows.append(_Row("model"))
                self._rows[-1].text += text
            case ToolCallStart(call):
                self._row(call)
            case ToolCallDelta(call, arguments_delta):
                self._row(call).text += arguments_delta
            case ArgumentsRestated(call, arguments_text):
                self._row(call).text = f"{call.name} {arguments_text}"
            case ToolRunning(call):
                self._row(call).state = "running"
            case ToolCompleted(call, result):
                self._row(call).state, self._row(call).outcome = "done", str(result.value)
            case (
                ToolError(call, result)
                | ToolDenied(call, result)
                | ToolTimedOut(call, result)
                | ToolCanceled(call, result)
            ):
                # The row names the tool already.
                why = str(result.error).removeprefix(f"{call.name} failed with ")
                self._row(call).state, self._row(call).outcome = "failed", why
            case Warned(code, message):
                self._rows.append(_Row("warning", f"{code}: {message}"))
            case Failed(error):
                self._rows.append(_Row("error", f"{error.kind}: {error.message}"))
            case _:
                pass

    def _row(self, call: CallRef) -> _Row:
        if call.id not in self._calls:
            self._calls[call.id] = _Row("tool", f"{call.name} ", state="asked")
            self._rows.append(self._calls[call.id])
        return self._calls[call.id]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        plain = options.ascii_only
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=7, style="dim", justify="right")
        grid.add_column(overflow="fold")
        for row in self._rows:
            grid.add_row(row.who, self._tool(row, console, plain=plain) if row.who == "tool" else Styled(row.text))
        yield grid

    def _tool(self, row: _Row, console: Console, *, plain: bool) -> Styled:
        line = Styled(row.text, style="cyan")
        match row.state:
            case "running":
                line.append("  ...", style="dim") if plain else line.append(
                    f"  {_SPINNER[int(console.get_time() * 10) % len(_SPINNER)]}", style="yellow"
                )
            case "done":
                line.append("  = " if plain else "  ✓ ", style="green").append(row.outcome, style="green")
            case "failed":
                line.append("  ! " if plain else "  ✗ ", style="red").append(row.outcome, style="red")
        return line
