"""A target: a public entry that takes foreign input, the exceptions that it may raise, and the inputs to start from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fuzz.inputs import Input, sources

from streamkit import providers

__all__ = ["Run", "Target", "stream_seeds"]

#: Feeds an input and checks what comes of it; may return sentences for the report, which are no failures.
Run: TypeAlias = Callable[[Input], Iterable[str] | None]


@dataclass(frozen=True)
class Target:
    """A public entry that takes foreign input.

    Attributes:
        name: of the target.
        run: feeds an input.
        may_raise: the exceptions by which the entry refuses an input. Any other is a finding.
        seeds: returns the undamaged inputs.
        options: the values of each option of an input; the first is the usual one.
        is_slow: whether an input takes so long that the target runs only if it is named.
    """

    name: str
    run: Run
    may_raise: tuple[type[Exception], ...]
    seeds: Callable[[], list[Input]]
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_slow: bool = False


def stream_seeds(name: str, others: Sequence[str] = (), size: int = 8000, step: int = 1) -> list[Input]:
    """Return the undamaged streams as inputs of a target.

    Args:
        name: of the target.
        others: the providers of the other side, which take turns.
        size: characters of JSON; a longer stream is shortened.
        step: every how many streams one is taken.
    """
    others = others or providers.names()
    seeds: list[Input] = []
    for number, source in enumerate(sources()[::step]):
        parts: list[Any] = list(source.shortened(size))
        other = others[number % len(others)]
        seeds.append(Input(name, source.provider, other, {"end": "marker"}, seed=number, parts=parts))
    return seeds
