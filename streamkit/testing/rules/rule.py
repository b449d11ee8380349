"""Request rules: what real providers refuse, as types, and what the modules of rules share.

A rule is called with the complete body and yields every path that violates it. It never raises for any body: it ignores
a value of an unexpected form, which the wire's rule about the form reports (`check_message_form` for a list of messages
with roles). This module must not depend on a particular provider.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = [
    "Check",
    "Finding",
    "Json",
    "Rule",
    "Violation",
    "as_text_or_none",
    "check_chosen_tool",
    "check_message_form",
    "is_object_text",
    "objects",
    "read_chosen_tool",
    "short_json",
]

Json: TypeAlias = dict[str, Any]
#: A path (``messages.1.content.0.id``) and the reason why the value there is rejected.
Finding: TypeAlias = tuple[str, str]
#: Returns the findings of a rule for (body, requested model).
Check: TypeAlias = Callable[[Json, str], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Violation:
    """A value in a request that violates a rule.

    Attributes:
        rule: the rule's name.
        path: the keys and indexes that lead to the value, such as ``messages.1.content.0.id``.
        sentence: the reason why it is rejected.
        source: the source of the rule.
        status: the HTTP status of the refusal.
        code: the provider's code of the error, if its errors have one.
        in_own_words: whether the sentence is the provider's message, which has the path.
    """

    rule: str
    path: str
    sentence: str
    source: str
    status: int = 400
    code: str | None = None
    in_own_words: bool = False

    @property
    def message(self) -> str:
        """The violation in one line, as the embedded server reports it."""
        words = self.sentence.rstrip() if self.in_own_words else f"{self.path}: {self.sentence}"
        return f"{words} (rule {self.rule}; source: {self.source})"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for the requests to a provider.

    Attributes:
        name: its name, unique on its wire.
        check: yields the findings for a body and the requested model.
        source: the vendor's page, or an issue that quotes the provider's error.
        status: the HTTP status of a refusal.
        code: the provider's code of the error, if its errors have one.
        in_own_words: whether the sentences are the provider's messages.
    """

    name: str
    check: Check
    source: str
    status: int = 400
    code: str | None = None
    in_own_words: bool = False

    def violations(self, body: Json, model: str) -> Iterator[Violation]:
        """Yield every violation of this rule in a body."""
        for path, sentence in self.check(body, model):
            yield Violation(self.name, path, sentence, self.source, self.status, self.code, self.in_own_words)


def objects(value: Any) -> list[tuple[int, Json]]:
    """Return the objects of a list with their indexes; an empty list for any other value."""
    return [(index, item) for index, item in enumerate(value) if isinstance(item, dict)] if type(value) is list else []


def as_text_or_none(value: Any) -> str | None:
    """Return a string unchanged; None for any other value."""
    return value if isinstance(value, str) else None


def short_json(value: Any) -> str:
    """Return a value as JSON of at most 80 characters, for a message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):  # nested too deeply, or of a type that JSON does not have
        return f"a {type(value).__name__}"
    text = text.encode(errors="replace").decode()  # half a surrogate pair cannot be encoded as UTF-8
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_object_text(value: Any) -> bool:
    """Return True if a value is the JSON text of an object."""
    if not isinstance(value, str):
        return False
    try:
        return isinstance(json.loads(value), dict)
    except (RecursionError, ValueError):
        return False


def check_message_form(
    body: Json,
    *,
    field: str,
    content_field: str,
    roles: Collection[str] | None,
    must_be_list: bool = False,
    may_be_absent: bool = False,
) -> Iterator[Finding]:
    """Yield every value that deviates from the form of a list of messages with a role and content.

    Args:
        body: the request.
        field: the field with the list; a body without it has no deviation.
        content_field: the field of a message's content.
        roles: the allowed roles; None for any text.
        must_be_list: whether content must be a list of objects; otherwise it may also be text.
        may_be_absent: whether content may be absent or null.
    """
    if field not in body:
        return
    if not isinstance(body[field], list):
        yield field, f"is {short_json(body[field])}, not a list"
        return
    for index, message in enumerate(body[field]):
        path = f"{field}.{index}"
        if not isinstance(message, dict):
            yield path, f"is {short_json(message)}, not an object"
            continue
        role = as_text_or_none(message.get("role"))
        if roles is None and role is None:
            yield f"{path}.role", f"is {short_json(message.get('role'))}, not text"
        elif roles is not None and role not in roles:
            yield f"{path}.role", f"is {short_json(message.get('role'))}, not one of {', '.join(sorted(roles))}"
        yield from _check_content(
            message.get(content_field),
            f"{path}.{content_field}",
            must_be_list=must_be_list,
            may_be_absent=may_be_absent,
        )


def _check_content(content: Any, path: str, *, must_be_list: bool, may_be_absent: bool) -> Iterator[Finding]:
    if isinstance(content, list):
        for index, part in enumerate(content):
            if not isinstance(part, dict):
                yield f"{path}.{index}", f"is {short_json(part)}, not an object"
    elif isinstance(content, str):
        if must_be_list:
            yield path, "is text, not a list"
    elif content is not None or not may_be_absent:
        yield path, f"is {short_json(content)}, not {'a list' if must_be_list else 'text or a list'}"


def read_chosen_tool(choice: Any, *path: str) -> str | None:
    """Return the tool name at this path of a tool choice, or None if it names no tool."""
    for key in path:
        choice = choice.get(key) if isinstance(choice, dict) else None
    return as_text_or_none(choice)


def check_chosen_tool(path: str, name: str | None, known: Collection[str]) -> Iterator[Finding]:
    """Yield a finding if a tool choice names a tool that the request does not define."""
    if name is not None and name not in known:
        yield path, f"asks for the tool {short_json(name)}, and the request defines {short_json(sorted(known))}"
