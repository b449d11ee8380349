"""The smallest input that still breaks the same rule in the same way, as far as a few hundred attempts find it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fuzz.inputs import Input
from fuzz.mutations import places
from fuzz.targets import Finding, examine

__all__ = ["minimize"]


def minimize(given: Input, finding: Finding, attempts: int = 1500) -> Input:
    """Return a smaller input with the same finding.

    Args:
        given: an input with the finding.
        finding: as ``examine`` returns it.
        attempts: how many inputs are tried at most.
    """
    left = attempts

    def has_finding(smaller: Input) -> bool:
        nonlocal left
        left -= 1
        return examine(smaller)[0] == finding

    is_smaller = True
    while is_smaller and left > 0:
        is_smaller = False
        for step in (_fewer_parts, _without_values, _shorter_texts, _usual_options):
            before = len(given.to_json())
            given = _shrink(given, step, has_finding, lambda: left > 0)
            is_smaller = is_smaller or len(given.to_json()) < before
    return given


def _shrink(
    given: Input,
    step: Callable[[Input], Iterator[Input]],
    is_good: Callable[[Input], bool],
    may_go_on: Callable[[], bool],
) -> Input:
    """Return the input after all smaller ones of one kind that are good, each of which the next ones are made of."""
    found = True
    while found and may_go_on():
        found = False
        for smaller in step(given):
            if not may_go_on():
                break
            if len(smaller.to_json()) < len(given.to_json()) and is_good(smaller):
                given, found = smaller, True
                break
    return given


def _fewer_parts(given: Input) -> Iterator[Input]:
    """Yield the input without halves, quarters, ... and single parts."""
    size = len(given.parts)
    while size:
        for start in range(0, len(given.parts), size):
            yield replace(given, parts=given.parts[:start] + given.parts[start + size :])
        size //= 2


def _without_values(given: Input) -> Iterator[Input]:
    """Yield the input with one value less, or a simpler one in its place; large values first."""
    spots = sorted(places(given.parts), key=len)
    for path in spots:
        if isinstance(path[-1], str) and path[-1].startswith("$"):
            continue
        parts = copy.deepcopy(given.parts)
        container: Any = parts
        for step in path[:-1]:
            container = container[step]
        value = container.pop(path[-1])
        yield replace(given, parts=parts)
        simple = {dict: {}, list: [], str: "", int: 0, float: 0, bool: False}.get(type(value))
        if simple != value:
            for simpler in (simple, *(value[:1] if isinstance(value, list) else ())):
                again = copy.deepcopy(parts)
                container = again
                for step in path[:-1]:
                    container = container[step]
                if isinstance(container, list):
                    container.insert(path[-1], simpler)
                else:
                    container[path[-1]] = simpler
                yield replace(given, parts=again)


def _shorter_texts(given: Input) -> Iterator[Input]:
    """Yield the input with a part of one text left out, or a smaller number of repetitions."""
    for path in list(places(given.parts)):
        container: Any = given.parts
        for step in path[:-1]:
            container = container[step]
        value = container[path[-1]]
        shorter: list[Any] = []
        if isinstance(value, str) and path[-1] != "$name":
            size = len(value)
            while size and len(shorter) < 60:
                shorter += [
                    value[:start] + value[start + size :] for start in range(0, min(len(value), 30 * size), size)
                ]
                size //= 2
        elif path[-1] in ("$times", "$nest", "$keys") and isinstance(value, int) and value > 1:
            shorter = [1, value // 10, value // 2]
        for text in shorter:
            parts = copy.deepcopy(given.parts)
            container = parts
            for step in path[:-1]:
                container = container[step]
            container[path[-1]] = text
            yield replace(given, parts=parts)


def _usual_options(given: Input) -> Iterator[Input]:
    for name in given.options:
        yield replace(given, options={other: value for other, value in given.options.items() if other != name})
    if given.seed:
        yield replace(given, seed=0)
        yield replace(given, seed=1)
