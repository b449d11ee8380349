"""Generators of batches that contain one another, without a cost for each level.

An event that passes a generator costs about as much as one that is fed (0.2 us), and a run has several levels: run,
round, turn, request, source. So events go through them as lists, and a generator does not repeat the batches of another
one: it yields that generator, and ``flatten`` reads it directly. This is ``yield from`` (PEP 380) for asynchronous
generators.

This module must not depend on what the events mean.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TypeAlias, Union

from streamkit.events import Event

__all__ = ["Batches", "flatten"]

#: A generator of lists of events, and of further generators whose batches come next.
Batches: TypeAlias = AsyncGenerator[Union[list[Event], "Batches"], None]


async def flatten(batches: Batches) -> AsyncGenerator[list[Event], None]:
    """Yield the lists of a generator and, where it yields another generator, of that one until it ends.

    An exception of a generator is raised in the one that has yielded it. When this generator is closed, so are all of
    them, the innermost first.
    """
    generators = [batches]
    error: BaseException | None = None  # to be raised in the innermost generator
    try:
        while generators:
            current = generators[-1]
            try:
                item = await (current.__anext__() if error is None else current.athrow(error))
            except StopAsyncIteration:
                error = None
                generators.pop()
                continue
            except BaseException as raised:
                error = raised
                generators.pop()
                continue
            error = None
            if isinstance(item, list):
                try:
                    yield item
                except GeneratorExit as closing:
                    error = closing
            else:
                generators.append(item)
        if error is not None:
            raise error
    finally:
        del error  # its traceback refers to this frame
