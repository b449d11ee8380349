"""The check that a table has a row for every value that it is about, made when its module is imported."""

from __future__ import annotations

from collections.abc import Container, Iterable

__all__ = ["check_total"]


def check_total(table: str, rows: Container[object], keys: Iterable[object]) -> None:
    """Check that a table is total, so that a new value of what it is about cannot be forgotten.

    Args:
        table: where it is, as a module and a name.
        rows: the keys of its rows.
        keys: what needs a row: names, or classes.

    Raises:
        TypeError: with the keys without a row.
    """
    missing = [key.__name__ if isinstance(key, type) else str(key) for key in keys if key not in rows]
    if missing:
        raise TypeError(f"{table} has no row for {', '.join(missing)}: add one, which decides what is done with it")
