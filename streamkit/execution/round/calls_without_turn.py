"""Calls that come without their turn: a list of the caller's own, checked, with ids and an assistant's content. Pure.

This module must not depend on how calls are run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from streamkit.calls import StreamWarning, ToolCall
from streamkit.errors import UsageError
from streamkit.history import Content
from streamkit.ids import derived_tool_id
from streamkit.providers.provider import Provider
from streamkit.reading.to_content import to_tool_call_block

__all__ = ["build_assistant_content", "check_calls", "with_distinct_ids"]


def check_calls(calls: object) -> list[ToolCall]:
    """Return calls as a list.

    Raises:
        UsageError: they are not a list of calls, or a field of one has another type than declared.
    """
    expected = "pass a Turn or a list of its calls, as in turn.calls"
    if not isinstance(calls, Iterable) or isinstance(calls, (str, bytes, Mapping)):
        raise UsageError(f"{expected}, not {type(calls).__name__}")
    checked = list(calls)
    for call in checked:
        if not isinstance(call, ToolCall):
            raise UsageError(f"{expected}, not a list with {type(call).__name__}")
        try:
            msgspec.convert({name: getattr(call, name) for name in call.__struct_fields__}, ToolCall)
        except msgspec.ValidationError as error:
            raise UsageError(f"a call of {call.name!r} is not valid: {error}") from None
    return checked


def with_distinct_ids(calls: Iterable[ToolCall]) -> tuple[list[ToolCall], list[StreamWarning]]:
    """Return calls of which no two have the same id, and a warning for each that got another one.

    Results, messages and a tool's idempotency key depend on the id. Calls of a turn always have different ones; a list
    of calls may come from several turns, whose servers number their calls anew.
    """
    distinct: dict[str, ToolCall] = {}
    warnings: list[StreamWarning] = []
    for number, call in enumerate(calls):
        salt = 0
        new_id = call.id
        while new_id in distinct:
            new_id = derived_tool_id(raw_id=call.id, tool_name=call.name, turn_key=str(salt), call_index=number)
            salt += 1
        if new_id != call.id:
            message = f"the id {call.id!r} of a call of {call.name!r} is that of an earlier call: it is now {new_id!r}"
            warnings.append(StreamWarning("repeated_id", message, new_id))
            call = msgspec.structs.replace(call, id=new_id)
        distinct[new_id] = call
    return list(distinct.values()), warnings


def build_assistant_content(calls: Sequence[ToolCall], provider: Provider | None) -> Content:
    """Return the assistant's content with these calls."""
    origin = {} if provider is None else {"provider": provider.name}
    blocks = [dict(to_tool_call_block(call, origin)) for call in calls]
    return Content.model_validate({"speaker": "ai", "blocks": blocks})  # such calls may be the caller's own
