"""The inverse of a provider's table of finish reasons, for its encoder.

A provider declares one table, ``FINISH_REASONS``, from the names on its wire to the neutral ``FinishReason``. Several
names may have one meaning, and a meaning may have no name, so the inverse needs two facts more: which of several names
the provider sends, and what an encoder writes where the wire has no name. This module depends on no provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from streamkit.calls import FinishReason

__all__ = ["invert_finish_reasons"]

_NEUTRAL_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)
_NO_PREFERENCES: Mapping[FinishReason, str] = {}


def invert_finish_reasons(
    table: Mapping[str, FinishReason],
    *,
    preferred: Mapping[FinishReason, str] = _NO_PREFERENCES,
    default: str | None = None,
) -> dict[FinishReason, str]:
    """Return the name on the wire for every neutral finish reason.

    Args:
        table: The neutral reason by its name on the wire. Of several names with one meaning the first is taken.
        preferred: The exceptions: names that are taken instead of the table's first, or where it has none.
        default: The name for a reason that neither ``table`` nor ``preferred`` covers; None: the neutral name itself.

    Returns:
        A dict with one entry for each member of ``FinishReason``, in the order in which that declares them.
    """
    first_names: dict[FinishReason, str] = {}
    for name, reason in table.items():
        first_names.setdefault(reason, name)
    names = {**first_names, **preferred}
    return {reason: names.get(reason, reason if default is None else default) for reason in _NEUTRAL_REASONS}
