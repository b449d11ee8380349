"""References within a JSON Schema: what a ``$ref`` refers to, by JSON pointer (RFC 6901)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["follow_reference", "resolve_reference", "unescape_json_pointer"]

_URI_BYTES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def resolve_reference(reference: Any, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema to which a reference within the root schema refers, None if there is none."""
    node = follow_reference(reference, root)
    return node if isinstance(node, Mapping) else None


def follow_reference(reference: Any, root: Any) -> Any:
    """Return what a reference within a document refers to, None if there is nothing."""
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    node = root
    for step in reference[2:].split("/"):
        if isinstance(node, list):
            node = node[int(step)] if step.isdecimal() and int(step) < len(node) else None
        elif isinstance(node, Mapping):
            name = unescape_json_pointer(step)
            # A reference is a URI: "#/definitions/Record%3Cstring%3E" (vega/ts-json-schema-generator, ``encodeRefs``).
            node = node.get(name) if name in node else node.get(unescape_json_pointer(_decode_uri(step)))
        else:
            return None
    return node


def _decode_uri(text: str) -> str:
    return _URI_BYTES.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(errors="replace"), text)


def unescape_json_pointer(step: str) -> str:
    """Return the name that a step of a JSON pointer represents."""
    return step.replace("~1", "/").replace("~0", "~")
