"""Files of TOML tables of one kind: the keys of clients, and the upstreams of the command."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from streamkit.errors import UsageError

__all__ = ["read_tables"]

_T = TypeVar("_T")


def read_tables(
    path: str | os.PathLike[str],
    name: str,
    content: str,
    fields: Collection[str],
    read: Callable[[dict[str, Any], list[_T]], _T],
    text: str | None = None,
) -> list[_T]:
    """Return one value for each table of a TOML file, in its order.

    Args:
        path: the file.
        name: the name of its tables: ``key`` for ``[[key]]``.
        content: what each of them must have, for messages.
        fields: the fields that a table may have.
        read: takes a table, and what was read of those before it.
        text: the content of the file, if it is known.

    Raises:
        UsageError: the file cannot be read or is no such file. The message names the file and the table, and repeats no
            value, which may be a key.
    """
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8-sig") if text is None else text)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    tables = found.pop(name, None)
    if not isinstance(tables, list) or not tables or found:
        has = f"it has {', '.join(found)}" if found else "it has none"
        raise UsageError(f"{path} must consist of tables [[{name}]], each with {content}; {has}")
    values: list[_T] = []
    for number, table in enumerate(tables, 1):
        place = f"{path}, {name} {number}"
        if not isinstance(table, dict):
            raise UsageError(f"{place}: it must be a table with {content}")
        if unknown := [field for field in table if field not in fields]:
            raise UsageError(f"{place}: there is no field {unknown[0]!r}: the fields are {', '.join(fields)}")
        try:
            values.append(read(table, values))
        except UsageError as error:
            raise UsageError(f"{place}: {error}") from None
    return values
