"""The tools of the application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamkit import Tool, ToolContext, ToolFailed
from streamkit.events import PreliminaryResult, StatePatch, UiData


@dataclass
class Session:
    """The ``deps`` of a run.

    Attributes:
        effects: of the application.
        state: the state that the front end shares with the tools; None if it shares none. It is changed in place.
    """

    effects: list[dict[str, Any]]
    state: dict[str, Any] | None = None

    def record(self, context: ToolContext[Session]) -> None:
        """Record that the tool of a call has had its effect."""
        call = context.call
        self.effects.append({"tool": call.name, "id": call.id, "arguments": call.arguments})


async def get_weather(city: str) -> dict[str, Any]:
    """The weather in a city, now."""
    if city == "Atlantis":
        raise ToolFailed("There is no weather in Atlantis.")
    return {"city": city, "degrees": 7}


async def slow(steps: int, context: ToolContext[Session]) -> str:
    """Work in steps."""
    for step in range(1, steps + 1):
        context.progress(PreliminaryResult(f"step {step}"))
    return "done"


async def pay(amount: int, context: ToolContext[Session], memo: str = "") -> str:
    """Pay an amount."""
    context.deps.record(context)
    return f"paid {amount}"


async def note(text: str, context: ToolContext[Session]) -> str:
    """Note a text."""
    context.deps.record(context)
    state = context.deps.state
    if state is not None:
        if isinstance(state.get("notes"), list):
            operation = {"op": "add", "path": "/notes/-", "value": text}
            state["notes"].append(text)
        else:
            operation = {"op": "add", "path": "/notes", "value": [text]}
            state["notes"] = [text]
        context.progress(StatePatch([operation]))
    return "noted"


async def draw(context: ToolContext[Session], title: str = "") -> str:
    """Draw a chart on the page."""
    context.progress(UiData("chart", {"title": title, "ready": False}, id="chart-1"))
    context.progress(UiData("toast", {"text": "The chart is being drawn."}, transient=True))
    context.progress(UiData("chart", {"title": title, "ready": True}, id="chart-1"))
    return "drawn"


async def crash() -> None:
    """Crash."""
    raise RuntimeError("at /srv/app/secret.py")


CONFIRM = Tool(
    name="confirm",
    description="Ask the person a question.",
    parameters={"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
)
TOOLS = [get_weather, slow, Tool(pay, approval="ask"), Tool(note, exclusive=True), draw, crash, CONFIRM]
