"""The form that most wires share: a list of messages with roles. Must not depend on a provider."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from streamkit.providers.request_rule import Finding, Json, shown, words

__all__ = ["form_of_messages", "named_tool", "unknown_tool"]


def form_of_messages(
    body: Json, *, field: str, parts: str, roles: Collection[str], only_parts: bool = False, bare: bool = False
) -> Iterator[Finding]:
    """Yield every deviation from a list of messages with a role and with content.

    Args:
        body: the request.
        field: the field with the list; a body without it has no deviation.
        parts: the field of a message's content.
        roles: the allowed roles.
        only_parts: whether content must be a list of objects; otherwise it may be text.
        bare: whether content may be absent or null.
    """
    if field not in body:
        return
    if not isinstance(body[field], list):
        yield field, f"is {shown(body[field])}, not a list"
        return
    for place, message in enumerate(body[field]):
        at = f"{field}.{place}"
        if not isinstance(message, dict):
            yield at, f"is {shown(message)}, not an object"
            continue
        if words(message.get("role")) not in roles:
            yield f"{at}.role", f"is {shown(message.get('role'))}, not one of {', '.join(sorted(roles))}"
        yield from _form_of_content(message.get(parts), f"{at}.{parts}", only_parts=only_parts, bare=bare)


def _form_of_content(content: Any, at: str, *, only_parts: bool, bare: bool) -> Iterator[Finding]:
    if isinstance(content, list):
        for place, part in enumerate(content):
            if not isinstance(part, dict):
                yield f"{at}.{place}", f"is {shown(part)}, not an object"
    elif isinstance(content, str):
        if only_parts:
            yield at, "is text, not a list"
    elif content is not None or not bare:
        yield at, f"is {shown(content)}, not {'a list' if only_parts else 'text or a list'}"


def named_tool(choice: Any, *path: str) -> str | None:
    """Return the name of the tool at *path* in a tool choice, or None."""
    for key in path:
        choice = choice.get(key) if isinstance(choice, dict) else None
    return words(choice)


def unknown_tool(at: str, name: str | None, known: Collection[str]) -> Iterator[Finding]:
    """Yield a violation if a tool choice names a tool that the request does not define."""
    if name is not None and name not in known:
        yield at, f"asks for the tool {shown(name)}, and the request defines {shown(sorted(known))}"
