"""The typed view of a structured output that grows.

It applies the changes of the JSON to instances of the type. Applying a change costs what the change contains, so a view
of a long output costs as much as the output, not its square. The view is for display: the validators of a model run
once, at the end, on the complete output. This module must not depend on where the JSON is found in a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from streamkit.json_text.changes import Change, JsonChanges
from streamkit.output.output_type import NOT_SHOWN, Shape

__all__ = ["PartialView"]


class PartialView:
    """A typed view of the value of a reader, whose root has this shape; what it has read so far is applied at once."""

    __slots__ = ("_growing", "_levels", "_root", "_shape", "_undecided")

    def __init__(self, shape: Shape, reader: JsonChanges) -> None:
        self._shape = shape
        self._root: list[Any] = []
        self._growing: tuple[str | int, ...] | None = None  # the path of the open string that is shown
        # Of each open container the value that is shown and its shape; None within a value that is not shown yet.
        self._levels: list[tuple[Any, Shape] | None] = []
        # The path and the shape of an open union of objects, and its changes, until a member decides which it is.
        self._undecided: tuple[tuple[str | int, ...], Shape, list[Change]] | None = None
        if reader.root:
            text_path = None if reader.open_string is None else reader.string_path
            open_ids = {id(each) for each in reader.open_containers}
            self.apply(_list_changes(reader.root[0], (), open_ids, text_path))

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply the next changes. The text of a string that grows is read in ``show``."""
        for change in changes:
            if self._undecided is not None and self._waits(change, *self._undecided):
                continue
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
        if reader.is_in_string and self._undecided is None:
            slot = self._slot(reader.string_path)
            if slot is not None and slot.shows_open_text and not self._is_in_set(reader.string_path):
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
        opened = None if shape is None or self._is_in_set(path) else shape.opened(value.__class__)
        if opened is None:
            self._levels.append(None)
        elif opened.kind == "other":
            self._undecided = (path, opened, [])
        else:
            self._open(path, value, opened)

    def _open(self, path: tuple[str | int, ...], value: Any, shape: Shape) -> None:
        shown, container = shape.create(value)
        self._put(path, shown)
        self._levels.append((container, shape))

    def _waits(self, change: Change, path: tuple[str | int, ...], union: Shape, waiting: list[Change]) -> bool:
        """Return True if a change waits until it is known which option of a union of objects is open."""
        size = len(path)
        if len(change.path) <= size:  # the object has ended, or another value replaces it
            self._undecided = None
            self._levels.append(None)
            return False
        if change.kind != "append":  # else its text is read in ``show``
            waiting.append(change)
        key, options = union.tag or ("", {})
        if change.kind == "end" and change.path[size:] == (key,) and change.value.__class__ is str:
            self._undecided = None
            if (option := options.get(change.value)) is None:
                self._levels.append(None)
            else:
                self._open(path, {}, option)
            self.apply(waiting)
        return True

    def _is_in_set(self, path: tuple[str | int, ...]) -> bool:
        """Return True for the path of an item of a set, which is added when it is complete."""
        level = self._levels[len(path) - 1] if path else None
        return level is not None and level[1].kind == "set"

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
        if shape.kind == "set":
            with suppress(TypeError):  # an item without a hash, which the type refuses at the end
                container.add(value)
        elif isinstance(key, int):
            if key <= len(container):  # else an item before it cannot be shown, and positions would be wrong
                container[key:] = (value,)
        elif shape.model is None:
            container[key] = value
        else:
            shape.set_field(container, key, value)


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
