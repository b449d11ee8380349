"""The names of tools that are most similar to an unknown one, for messages.

The unknown name comes from a model, so only its beginning is compared: the cost of ``difflib`` grows with the square of
the length, and a name of 320 kB would stop the event loop for seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

__all__ = ["quote_name", "sort_by_similarity"]

_COMPARED = 64  # characters of the unknown name: the names of tools have at most 64
_COMPARED_NAMES = 256  # of the known ones; those after them are listed in their own order
_SHOWN = 100  # characters of the unknown name in a message


def sort_by_similarity(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names, the most similar to *name* first; case is ignored.

    Args:
        name: a name of any length, of which the first 64 characters count.
        known: the names of tools.
    """
    names = list(known)
    compared, rest = names[:_COMPARED_NAMES], names[_COMPARED_NAMES:]
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(name[:_COMPARED].lower())  # difflib keeps its index of the second text
    distances: dict[str, float] = {}
    for other in compared:
        matcher.set_seq1(other[:_COMPARED].lower())
        distances[other] = -matcher.ratio()
    return sorted(compared, key=distances.__getitem__) + rest


def quote_name(name: str) -> str:
    """Return a name in quotes for a message; of a long one its beginning and its length."""
    if len(name) <= _SHOWN:
        return repr(name)
    return f"{name[:_SHOWN]!r}... ({len(name)} characters)"
