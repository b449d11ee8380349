"""Request rules for the form that most wires share: a list of messages with roles.

This module must not depend on a provider.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from streamkit.providers.request_rule import Finding, Json, as_text_or_none, short_json

__all__ = ["check_chosen_tool", "check_message_form", "read_chosen_tool"]


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
