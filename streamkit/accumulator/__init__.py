"""The accumulator: from a parser's calls on a ``Sink`` to events, text and completed tool calls.

Purpose: one place for every rule of docs/rules.md, "The stream". A parser reports what a provider's wire contains; the
accumulator assigns each delta to a tool call, keeps text and blocks, gives canonical ids, and makes the events.

Rules:

* Irregular input becomes a warning or an error, and always an event. Nothing is guessed without a warning.
* The cost is linear in the input. Parts of a text are joined once, and the end of an argument object is searched for
  only when a delta could depend on it.
* An inner object gets values, callables and the ``TurnState``, never the object that contains it.

It depends on JSON and canonical ids. It must not depend on providers (the facts about a wire arrive as ``WireTraits``),
tools or I/O.

Modules: ``turn_state`` (what all choices of a turn share), ``accumulator`` (the sink of one turn), ``choice`` (one
alternative of the turn), ``blocks`` (its blocks and calls under construction), ``call_index`` (to which call a delta
belongs), ``call_copies`` (calls that come in two forms), ``tracker`` (the changes and events that follow), ``ready``
(when a call is final), ``limits`` (the bounds of a turn and the facts about its wire).
"""

from streamkit.accumulator.accumulator import Accumulator, process_tool_call_chunk
from streamkit.accumulator.limits import Limits, WireTraits

__all__ = ["Accumulator", "Limits", "WireTraits", "process_tool_call_chunk"]
