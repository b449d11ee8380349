"""The names of a request's body in REST's spelling.

Protobuf's JSON accepts both spellings, and google-genai sends the other one in some places
(``parameters_json_schema``). Names in schemas belong to the user and are not changed. The contents are read by the
importer, which accepts both spellings itself.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["to_rest_names"]

Json = dict[str, Any]

_WORD = re.compile(r"_([a-z0-9])")
#: The fields whose names are the provider's, too.
_NESTED = frozenset({"generationConfig", "thinkingConfig", "toolConfig", "functionCallingConfig", "tools"})
_NESTED_LISTS = frozenset({"functionDeclarations"})


def to_rest_names(body: Json) -> Json:
    """Return the body with REST's names. A field in both spellings keeps both."""
    renamed: Json = {}
    for name, value in body.items():
        rest = _WORD.sub(lambda match: match[1].upper(), name) if isinstance(name, str) else name
        key = name if rest != name and rest in body else rest
        renamed[key] = _nested(value) if key in _NESTED | _NESTED_LISTS else value
    return renamed


def _nested(value: Any) -> Any:
    if isinstance(value, list):
        return [_nested(item) for item in value]
    return to_rest_names(value) if isinstance(value, dict) else value
