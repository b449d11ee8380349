"""What the things count that a parser keeps itself, beside their text (``Sink.keep``).

The accumulator counts what a parser has reported. A parser that needs a block complete before it can report it (a
server tool's input, an image), or compares what comes with what came, keeps data of its own and counts that.
"""

from __future__ import annotations

__all__ = ["BLOCK_SIZE", "PART_SIZE"]

BLOCK_SIZE = 256  #: a block or an item that a parser follows
PART_SIZE = 16  #: a part of a text that is joined at its end
