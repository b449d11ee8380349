"""The form that most wires share: a list of messages with roles. Must not depend on a provider."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from streamkit.providers.request_rule import Finding, Json, short_json, as_text_or_none

__all__ = ["check_message_form", "read_chosen_tool", "check_chosen_tool"]


def check_message_form(
    body: Json,
    *,
    field: str,
    content_field: str,
    roles: Collection[str],
    must_be_list: bool = False,
    may_be_absent: bool = False,
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
        yield field, f"is {short_json(body[field])}, not a list"
        return
    for place, message in enumerate(body[field]):
        at = f"{field}.{place}"
        if not isinstance(message, dict):
            yield at, f"is {short_json(message)}, not an object"
            continue
        if as_text_or_none(message.get("role")) not in roles:
            yield f"{at}.role", f"is {short_json(message.get('role'))}, not one of {', '.join(sorted(roles))}"
        yield from _form_of_content(
            message.get(content_field), f"{at}.{content_field}", only_parts=must_be_list, bare=may_be_absent
        )


def _form_of_content(content: Any, at: str, *, only_parts: bool, bare: bool) -> Iterator[Finding]:
    if isinstance(content, list):
        for place, part in enumerate(content):
            if not isinstance(part, dict):
                yield f"{at}.{place}", f"is {short_json(part)}, not an object"
    elif isinstance(content, str):
        if only_parts:
            yield at, "is text, not a list"
    elif content is not None or not bare:
        yield at, f"is {short_json(content)}, not {'a list' if only_parts else 'text or a list'}"


def read_chosen_tool(choice: Any, *path: str) -> str | None:
    """Return the name of the tool at *path* in a tool choice, or None."""
    for key in path:
        choice = choice.get(key) if isinstance(choice, dict) else None
    return as_text_or_none(choice)


def check_chosen_tool(at: str, name: str | None, known: Collection[str]) -> Iterator[Finding]:
    """Yield a violation if a tool choice names a tool that the request does not define."""
    if name is not None and name not in known:
        yield at, f"asks for the tool {short_json(name)}, and the request defines {short_json(sorted(known))}"
