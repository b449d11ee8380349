"""The type of a rule, and functions that read a body of any form. Must not depend on a provider.

A rule gets the complete body and returns each place that breaks it. It never raises for any body: a value of another
form than the rule looks for is left to the wire's rule of form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = [
    "Check",
    "Finding",
    "Json",
    "Rule",
    "Violation",
    "is_object_text",
    "objects",
    "short_json",
    "as_text_or_none",
]

Json: TypeAlias = dict[str, Any]
#: A place (``messages.1.content.0.id``), and what is wrong with it.
Finding: TypeAlias = tuple[str, str]
#: From a body and the requested model to the places that break the rule.
Check: TypeAlias = Callable[[Json, str], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Violation:
    """A place in a request that breaks a rule.

    Attributes:
        rule: the rule's name.
        place: keys and indexes: ``messages.1.content.0.id``.
        sentence: what is wrong with it.
        source: the source of the rule.
    """

    rule: str
    path: str
    sentence: str
    source: str

    @property
    def message(self) -> str:
        """The violation in one line, as the embedded server reports it."""
        return f"{self.path}: {self.sentence} (rule {self.rule}; source: {self.source})"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for the requests to a provider.

    Attributes:
        name: its name, unique on its wire.
        check: returns every place of a body that breaks it.
        source: the vendor's page, or a thread that quotes the provider's error.
    """

    name: str
    check: Check
    source: str

    def violations(self, body: Json, model: str) -> Iterator[Violation]:
        """Yield every place of a body that breaks it."""
        for place, sentence in self.check(body, model):
            yield Violation(self.name, place, sentence, self.source)


def objects(value: Any) -> list[tuple[int, Json]]:
    """Return the objects of a list with their indexes; an empty list for any other value."""
    return [(index, item) for index, item in enumerate(value) if isinstance(item, dict)] if type(value) is list else []


def as_text_or_none(value: Any) -> str | None:
    """Return a text unchanged, any other value as None."""
    return value if isinstance(value, str) else None


def short_json(value: Any) -> str:
    """Return a value as short text for a message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):  # nested too deeply, or not from JSON
        return f"a {type(value).__name__}"
    text = text.encode(errors="replace").decode()  # half a surrogate pair cannot be sent
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_object_text(value: Any) -> bool:
    """Return True if a value is the JSON text of an object."""
    if not isinstance(value, str):
        return False
    try:
        return isinstance(json.loads(value), dict)
    except (RecursionError, ValueError):
        return False
