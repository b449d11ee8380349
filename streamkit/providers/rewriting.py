"""A parser that rewrites each chunk before another parser reads it; for dialects that no trait describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from streamkit.errors import UsageError
from streamkit.providers.decoding import read_json
from streamkit.providers.sink import Parser

__all__ = ["Rewrite", "RewritingParser"]

#: Puts one chunk, as plain data, into the form that a wire should have.
Rewrite: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


class RewritingParser:
    """Rewrites each chunk and passes it on. A frame that is no JSON object, such as ``[DONE]``, is passed on unchanged.

    Args:
        parser: reads the rewritten chunks.
        rewrite: returns the chunk in the form that the wire should have; what it raises is raised by ``feed``.
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
