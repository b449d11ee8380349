"""The context that a tool gets with its call, and a person's decision on a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from msgspec import Struct, structs
from typing_extensions import TypeVar  # a dependency of pydantic; that of typing has no default before 3.13

from streamkit.calls import ToolCall

__all__ = ["Approval", "ToolContext", "copy_call", "copy_json"]


class Approval(Struct, frozen=True):
    """A person's decision on whether a call may run.

    Attributes:
        allow: whether it may run.
        arguments: the arguments to run it with, instead of the model's; None keeps those.
        reason: the reason, for the model to read.
    """

    allow: bool
    arguments: dict[str, Any] | None = None
    reason: str | None = None


Deps = TypeVar("Deps", default=Any)


class ToolContext(Generic[Deps]):
    """The context of a call. A tool gets it by a parameter with this annotation, which is not part of the schema.

    ``ToolContext[MyDeps]`` declares the type of ``deps``; it is not checked when the tool runs.

    Attributes:
        call: the call, with its canonical id, name and arguments.
        id: the idempotency key: the same at every attempt to run this call.
        deps: the caller's ``deps``.
        turn: the turn that made the call, or None.
        attempt: the number of the attempt, from 1. In a durable run that was continued, a call that may have run before
            has 2 or more.
        fence: the number of the worker's claim on a durable run, above that of every worker before. A resource that
            remembers the highest one refuses what a worker does that has lost the run. None without a claim.
    """

    __slots__ = ("_canceled", "_progress", "attempt", "call", "deps", "fence", "id", "turn")

    def __init__(
        self,
        call: ToolCall,
        *,
        id: str | None = None,
        deps: Deps = None,  # type: ignore[assignment]  # a run without deps has None
        turn: Any = None,
        progress: Callable[[Any], object] | None = None,
        canceled: Callable[[], bool] | None = None,
        attempt: int = 1,
        fence: int | None = None,
    ) -> None:
        self.call: ToolCall = call
        self.id: str = call.id if id is None else id
        self.deps: Deps = deps
        self.turn: Any = turn
        self.attempt: int = attempt
        self.fence: int | None = fence
        self._progress = progress
        self._canceled = canceled

    def progress(self, value: Any) -> None:
        """Report an intermediate value as a ``tool_progress`` event. The tool's worker thread may call it."""
        if self._progress is not None:
            self._progress(value)

    async def watch(self, run: Any) -> Any:
        """Run a ``run_loop(...)`` in this call, and return the run when it has ended.

        Each of its events is reported as the progress of this call, so that it is shown under it: a ``tool_progress``
        event with the event as its value. The run ends with the call, also if that is canceled.

        Args:
            run: what ``run_loop`` has returned, not started yet.

        Raises:
            StreamInterrupted: as for ``run_loop``.
        """
        async with run:
            async for event in run:
                self.progress(event)
        return run

    @property
    def canceled(self) -> bool:
        """True if the run has canceled this call: a synchronous tool in a thread checks it to stop."""
        return self._canceled is not None and self._canceled()


def copy_json(value: Any) -> Any:
    """Return a copy of JSON data with containers of its own; any other object in it is not copied.

    It is recursive and takes one frame a level: arguments are at most 256 levels deep.
    """
    if isinstance(value, dict):
        fields = dict(value)
        for name, item in value.items():
            if isinstance(item, (dict, list)):
                fields[name] = copy_json(item)
        return fields
    if isinstance(value, list):
        return [copy_json(item) if isinstance(item, (dict, list)) else item for item in value]
    return value


def copy_call(call: ToolCall) -> ToolCall:
    """Return a copy of a call whose arguments and metadata can be changed without effect on the call."""
    copies = {name: copy_json(getattr(call, name)) for name in ("arguments", "partial", "metadata")}
    return structs.replace(call, **copies)
