"""The typed view of a JSON value that grows: the changes of its text, applied to instances of the type.

Applying a change costs what the change contains, so a view of a long output costs as much as the output, not its
square. The view is for display: the validators of a model run once, at the end, on the complete output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamkit.json_text import Change, JsonChanges
from streamkit.output.shape import NOT_SHOWN, Shape

__all__ = ["PartialView"]


class PartialView:
    """A typed view of the value of a reader.

    Args:
        shape: the shape of the root.
        reader: the reader; what it has read so far is applied at once.
    """

    __slots__ = ("_growing", "_levels", "_root", "_shape")

    def __init__(self, shape: Shape, reader: JsonChanges) -> None:
        self._shape = shape
        self._root: list[Any] = []
        self._growing: tuple[str | int, ...] | None = None  # the path of the open string that is shown
        # Of each open container the value that is shown and its shape; None within a value that is not shown yet.
        self._levels: list[tuple[Any, Shape] | None] = []
        if reader.root:
            text_path = None if reader.open_string is None else reader.string_path
            open_ids = {id(each) for each in reader.open_containers}
            self.apply(_list_changes(reader.root[0], (), open_ids, text_path))

    def apply(self, changes: Iterator[Change] | list[Change]) -> None:
        """Apply the next changes. The text of a string that grows is read in ``show``."""
        for change in changes:
            if change.kind == "set":
                self._begin(change)
            elif change.kind == "end":
                self._end(change)

    def show(self, reader: JsonChanges) -> Any:
        """Return the value so far, the same object at each call; None if nothing of it can be shown."""
        if self._growing is not None:
            self._put(
                self._growing, ""
            )  # a string that is referred to once is extended in place (``JsonReader._grow``)
            self._growing = None
        if reader.is_in_string:
            slot = self._slot(reader.string_path)
            if slot is not None and slot.shows_open_text:
                self._growing = reader.string_path
            text = reader.open_string
            if self._growing is not None:
                self._put(self._growing, text)
        return self._root[0] if self._root else None

    def _slot(self, path: tuple[str | int, ...]) -> Shape | None:
        """Return the shape of the value at a path; None if it is not shown."""
        if not path:
            return self._shape
        level = self._levels[len(path) - 1]
        if level is None:
            return None
        shape, key = level[1], path[-1]
        if isinstance(key, int):
            return shape.item_shape()
        field = shape.field(key)
        return None if field is None else field[1]

    def _begin(self, change: Change) -> None:
        path, value = change.path, change.value
        del self._levels[len(path) :]
        shape = self._slot(path)
        if value.__class__ is str:
            return
        if value.__class__ is not dict and value.__class__ is not list:
            if shape is not None:
                self._put(path, shape.convert(value))
            return
        if shape is None or not _can_show(shape, value):
            self._levels.append(None)
            return
        created = value.copy() if shape.kind == "any" else shape.create()
        self._put(path, created)
        self._levels.append((created, shape))

    def _end(self, change: Change) -> None:
        if change.path == self._growing:
            self._growing = None
        shape = self._slot(change.path)
        is_text = change.value.__class__ is str
        is_shown = not is_text and self._levels[len(change.path)] is not None
        if shape is not None and not is_shown:
            self._put(change.path, shape.convert(change.value))

    def _put(self, path: tuple[str | int, ...], value: Any) -> None:
        if value is NOT_SHOWN:
            return
        if not path:
            self._root[:] = (value,)
            return
        level = self._levels[len(path) - 1]
        if level is None:
            return
        container, shape = level
        key = path[-1]
        if isinstance(key, int):
            if key <= len(container):  # else an item before it cannot be shown, and positions would be wrong
                container[key:] = (value,)
        elif shape.model is None:
            container[key] = value
        elif (field := shape.field(key)) is not None:
            container.__dict__[field[0]] = value
            container.__pydantic_fields_set__.add(field[0])


def _can_show(shape: Shape, value: Any) -> bool:
    kinds = ("any", "list") if value.__class__ is list else ("any", "dict", "model")
    return shape.kind in kinds


def _list_changes(
    value: Any, path: tuple[str | int, ...], open_ids: set[int], text_path: tuple[str | int, ...] | None
) -> Iterator[Change]:
    """Return the changes that lead to a value, without the ends of open strings and containers."""
    if value.__class__ is not dict and value.__class__ is not list:
        yield Change(path, "set", value)
        if value.__class__ is str and path != text_path:
            yield Change(path, "end", value)
        return
    yield Change(path, "set", value.__class__())
    for key, item in value.items() if value.__class__ is dict else enumerate(value):
        yield from _list_changes(item, (*path, key), open_ids, text_path)
    if id(value) not in open_ids:
        yield Change(path, "end", value)
