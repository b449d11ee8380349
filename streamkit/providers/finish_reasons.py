"""Reading a provider's table of finish reasons, for its parser, and inverting it, for its encoder.

A provider declares one table, ``FINISH_REASONS``, from the names on its wire to the neutral ``FinishReason``. Several
names may have one meaning, and a meaning may have no name, so the inverse needs two facts more: which of several names
the provider sends, and what an encoder writes where the wire has no name. This module depends on no provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from streamkit.calls import FinishReason
from streamkit.providers.lenient_json import json_or_placeholder

__all__ = ["invert_finish_reasons", "read_finish_reason"]

_NEUTRAL_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)
_NO_PREFERENCES: Mapping[FinishReason, str] = {}


def read_finish_reason(raw: Any, table: Mapping[str, FinishReason]) -> tuple[str | int, FinishReason]:
    """Return a finish reason as the turn keeps it, and its neutral meaning: the arguments of ``ChoiceSink.finish``.

    Args:
        raw: What the wire sent. A name that ``table`` lacks, a number or any other value means ``other``.
        table: The neutral reason by its name on the wire.
    """
    if isinstance(raw, str):
        return raw, table.get(raw, "other")
    return (raw if raw.__class__ is int else json_or_placeholder(raw)), "other"


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
