"""The structured output of a run: read from the model's text or from its call, and corrected by the model. Pure.

Where the request has a tool for the output (``providers.output_form``), the run has this tool too: a call of it that
fits is the output, and one that does not fails as any other call, so that the model gets the reason as its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from streamkit.calls import ToolCall
from streamkit.errors import InvalidOutput, ToolFailed, UsageError
from streamkit.execution.durable.entries import StoredResult
from streamkit.history import Content
from streamkit.output import OUTPUT_TOOL, Growing, OutputType
from streamkit.tools import Tool, ToolContext

__all__ = ["RunOutput"]

T = TypeVar("T")


class RunOutput(Generic[T]):
    """The output of one run.

    Args:
        output_type: what it must be.
        retries: how many rounds with a wrong output the model may correct.

    Attributes:
        tool: the tool whose arguments may be the output.
    """

    def __init__(self, output_type: OutputType[T], retries: int) -> None:
        self.value: T | None = None  # the output; None before it is there
        self.is_set: bool = False  # it is there
        self.tool: Tool[..., Any] = Tool(
            self._accept, name=OUTPUT_TOOL, description="", parameters={"type": "object"}, ends_run=True
        )
        self._type = output_type
        self._retries = retries
        self._failures = 0  # rounds with a wrong output
        self._error: InvalidOutput | None = None  # of the current round

    async def _accept(self, streamkit_context: ToolContext, **arguments: Any) -> str:
        """Take the arguments of a call as the output."""
        self._read(streamkit_context.call.arguments_text)
        if self._error is not None:
            raise ToolFailed(str(self._error))
        return "The answer was accepted."

    def check_tools(self, tools: Sequence[Tool]) -> None:
        """Check that no tool gives the run another output.

        Raises:
            UsageError: a tool ends the run with its value.
        """
        for tool in tools:
            if tool.ends_run:
                raise UsageError(
                    f"{tool.name} ends the run with its value, and output= asks for another output: pass one of the two"
                )

    def restore(self, calls: Sequence[ToolCall], results: Sequence[StoredResult]) -> None:
        """Read the output, or what was wrong with it, from the calls that had results when the run was left."""
        have_results = {result.call_id for result in results}
        for call in calls:
            if call.name == OUTPUT_TOOL and call.id in have_results:
                self._read(call.arguments_text)

    def _read(self, text: str) -> None:
        growing = Growing(self._type)
        growing.feed(text)
        try:
            self.value = growing.close()
        except InvalidOutput as error:
            self._error = error
        else:
            self.is_set, self._error = True, None

    def check_round(self, text: str | None) -> InvalidOutput | None:
        """Return why the output of a round does not fit; None if it fits, or if the round had none.

        Args:
            text: the text of the round, if it is the answer; None if the round made calls.
        """
        if text is not None and not self.is_set:
            self._read(text)
        error, self._error = self._error, None
        self._failures += error is not None
        return error

    def clear(self) -> None:
        """Forget the output, because the run goes on after it."""
        self.value, self.is_set = None, False

    @property
    def may_correct(self) -> bool:
        """True if the model may correct a wrong output in a further round."""
        return self._failures <= self._retries

    def correction(self, error: InvalidOutput) -> Content:
        """Return the message in which the model reads why its text is not the output."""
        return Content.human(f"{error}. Reply with the corrected output, and with nothing else.")
