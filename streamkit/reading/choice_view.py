"""The public view of one choice of a turn.

A view reads the accumulator and contains no data of its own. ``Turn`` extends it: the result of a turn is that of one
choice, which is fixed when the turn is closed. The module must not depend on input or providers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkit.accumulator.choice import Choice
from streamkit.accumulator.turn_state import TurnState
from streamkit.calls import FailedRequest, Finish, ServerCall, StreamError, ToolCall
from streamkit.errors import UsageError
from streamkit.values.redaction import excerpt_repr

if TYPE_CHECKING:
    from streamkit.history import Content

__all__ = ["ChoiceView"]


class ChoiceView:
    """One choice of a turn, for requests with several (``n`` > 1); ``Turn.choices`` has them."""

    __slots__ = ("_own_choice", "_state")

    def __init__(self, choice: Choice, state: TurnState) -> None:
        self._own_choice = choice
        self._state = state

    def __repr__(self) -> str:
        return f"<ChoiceView {self.index}{self._describe()}>"

    def _describe(self) -> str:
        """Return the contents in short, for the ``repr``. Nothing counts as read by that, least of all the error."""
        choice = self._choice
        parts = [
            f" {name}={excerpt_repr(text)}" for name in ("text", "reasoning") if (text := choice.joined_text(name))
        ]
        calls = choice.calls
        if calls:
            names = ", ".join(f"{call.name[:40]} {call.state}" for call in calls[:4])
            parts.append(f" calls=[{names}{', ...' if len(calls) > 4 else ''}]")
        if choice.effective_finish is not None:
            parts.append(f" finish={choice.effective_finish.reason!r}")
        return "".join(parts)

    @property
    def _choice(self) -> Choice:
        return self._own_choice

    @property
    def has_error(self) -> bool:
        """Whether an error ended the turn; unlike ``Turn.error``, it does not count as reading the error."""
        return self._state.error is not None

    def failed_request(self, error: StreamError, address: str | None = None) -> FailedRequest:
        """Return what was requested, with the error that ended it; *address* is the server's, if it was not passed."""
        state = self._state
        model, endpoint = state.requested_model or state.model, state.endpoint or address
        return FailedRequest(state.provider_name, model, endpoint, error)

    @property
    def index(self) -> int:
        """The choice's number."""
        return self._choice.index

    @property
    def text(self) -> str:
        """The text so far."""
        return self._choice.joined_text("text")

    @property
    def reasoning(self) -> str:
        """The reasoning so far, of every kind."""
        return self._choice.joined_text("reasoning")

    @property
    def refusal(self) -> str | None:
        """The text of the model's refusal; None if it did not refuse."""
        return self._choice.joined_text("refusal") or None

    @property
    def calls(self) -> list[ToolCall]:
        """The client's tool calls, in order of first appearance, in every state."""
        return self._choice.calls

    @property
    def executable(self) -> list[ToolCall]:
        """The calls that may run: complete ones of a confirmed turn without error. Empty until the turn is closed."""
        return [call.snapshot() for call in self._choice.executable]

    @property
    def server_calls(self) -> list[ServerCall]:
        """The calls that the provider ran itself, with their results."""
        return self._choice.server_calls

    @property
    def finish(self) -> Finish | None:
        """The reason why the model stopped; None until the turn is closed, and if the end was not confirmed."""
        return self._choice.effective_finish

    @property
    def content(self) -> Content:
        """The assistant's content for history: blocks in order, opaque state kept."""
        from streamkit.reading.to_content import choice_to_content

        return choice_to_content(self._choice, self._state)

    def call(self, id: str) -> ToolCall:
        """Return the call of a canonical id.

        Args:
            id: the canonical id.

        Raises:
            UsageError: there is no such call in the choice.
        """
        call = self._choice.find_call(id)
        if call is None:
            raise UsageError(f"this turn has no call {id!r}")
        return call
