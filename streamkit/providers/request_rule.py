"""What a rule is, and how rules read a body that may be anything. It knows no vendor.

A rule is told a whole body and says each place that breaks it. It never raises for what a body holds: what has not the
form that it looks for is the business of the wire's rule of form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Finding", "Check", "Violation", "Json", "Rule", "is_object_text", "objects", "shown", "words"]

Json: TypeAlias = dict[str, Any]
#: Where something stands (``messages.1.content.0.id``), and what is wrong with it there.
Finding: TypeAlias = tuple[str, str]
#: A body and the model that is asked, to the places that break the rule.
Check: TypeAlias = Callable[[Json, str], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Violation:
    """A place in a request that breaks a rule.

    Attributes:
        rule: the rule's name.
        place: where, by keys and indexes: ``messages.1.content.0.id``.
        sentence: what is wrong there.
        source: where the rule is from.
    """

    rule: str
    place: str
    sentence: str
    source: str

    @property
    def message(self) -> str:
        """All of it in one line, as the server answers it."""
        return f"{self.place}: {self.sentence} (rule {self.rule}; source: {self.source})"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that a provider holds requests to.

    Attributes:
        name: its name, unique on its wire.
        check: gives every place of a body that breaks it.
        source: the vendor's page, or the thread in which its refusal is quoted.
    """

    name: str
    check: Check
    source: str

    def faults(self, body: Json, model: str) -> Iterator[Violation]:
        """Every place of a body that breaks it."""
        for place, sentence in self.check(body, model):
            yield Violation(self.name, place, sentence, self.source)


def objects(value: Any) -> list[tuple[int, Json]]:
    """The objects of a list, with their places; of anything else, none."""
    return [(place, item) for place, item in enumerate(value) if isinstance(item, dict)] if type(value) is list else []


def words(value: Any) -> str | None:
    """Text, or None."""
    return value if isinstance(value, str) else None


def shown(value: Any) -> str:
    """A value as a message shows it: short."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):  # nested out of reach, or not from JSON
        return f"a {type(value).__name__}"
    text = text.encode(errors="replace").decode()  # half a surrogate pair cannot be sent
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_object_text(value: Any) -> bool:
    """Whether a value is the JSON text of an object."""
    if not isinstance(value, str):
        return False
    try:
        return isinstance(json.loads(value), dict)
    except (RecursionError, ValueError):
        return False
