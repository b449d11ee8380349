"""A parser that rewrites each chunk before another parser reads it, for differences that no trait describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from streamkit.errors import UsageError
from streamkit.providers.decoding import read_json
from streamkit.providers.sink import Parser

__all__ = ["Rewrite", "RewritingParser"]

#: Returns one chunk, as plain data, in the form that the parser of the wire expects.
Rewrite: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


class RewritingParser:
    """A parser that rewrites each chunk for another parser. Frames that are no JSON object are passed on unchanged.

    Args:
        parser: reads the rewritten chunks.
        rewrite: returns the chunk in the expected form; its exceptions propagate from ``feed``.
    """

    __slots__ = ("_parser", "_rewrite")

    def __init__(self, parser: Parser, rewrite: Rewrite) -> None:
        self._parser = parser
        self._rewrite = rewrite

    def frame(self, name: bytes, data: bytes) -> None:
        """Parse one frame."""
        try:
            chunk = None if name == b"error" else read_json(data)
        except (ValueError, RecursionError):
            chunk = None
        if isinstance(chunk, dict):
            self.chunk(chunk)
        else:
            self._parser.frame(name, data)

    def chunk(self, data: dict[str, Any]) -> None:
        """Parse one chunk given as a dict.

        Raises:
            UsageError: ``rewrite`` returned something else than a dict.
        """
        rewritten = self._rewrite(data)
        if not isinstance(rewritten, dict):
            raise UsageError(f"rewrite must return a chunk as a dict, not {type(rewritten).__name__}")
        self._parser.chunk(rewritten)

    def end(self) -> None:
        """End the stream."""
        self._parser.end()
