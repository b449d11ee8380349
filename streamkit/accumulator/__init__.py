"""What a stream said, gathered: the theory of operation.

A parser tells the accumulator what the wire said; the accumulator makes the events, keeps the text, and decides which
call each piece of a call belongs to. It knows JSON and canonical ids. It does not know vendors (their habits reach it
as three facts: ``Habits``), nor tools, nor I/O, and it never guesses in silence: whatever is odd is warned of.

``turn.py`` (the Accumulator) holds what concerns the whole turn, ``answer.py`` one answer of it (its blocks in order),
``matching.py`` which call a piece belongs to and where a new call begins, ``call.py`` one call being gathered.
Costs are linear: parts are joined once, the end of an object is looked for only when a piece could matter.
"""

from streamkit.accumulator.accumulator import Accumulator, Limits, process_tool_call_chunk

__all__ = ["Accumulator", "Limits", "process_tool_call_chunk"]
