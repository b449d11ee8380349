"""The strict modes that more than one room speaks, as data; ``streamkit.tools.StrictProfile`` says what a fact means.

A vendor's own stands in its room. These have none, or none that is documented, and get a strict tool like any other:
Ollama (its tool type has no field for it), and the chat dialects named in ``openai_chat.strict``.
"""

from __future__ import annotations

from streamkit.tools import StrictProfile

__all__ = ["ANTHROPIC", "BEDROCK", "OPENAI"]

# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas (read 2026-11): every property required,
# "it is possible to emulate an optional parameter by using a union type with null"; the words and formats below; 5,000
# properties, 10 levels, 1,000 values in enums; recursion is taken, by definitions or by "#". Of a ``default`` the API
# said "is not permitted".
OPENAI = StrictProfile(
    "OpenAI",
    every_required=True,
    words={
        "pattern": None,
        "format": frozenset(["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"]),
        "multipleOf": None,
        "minimum": None,
        "maximum": None,
        "exclusiveMinimum": None,
        "exclusiveMaximum": None,
        "minItems": None,
        "maxItems": None,
    },
    properties=5000,
    depth=10,
    enum_values=1000,
)

_CLAUDE_WORDS = {
    "default": None,
    "format": frozenset(["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"]),
    "minItems": frozenset((0, 1)),
}

# https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations (read 2026-11), for
# strict tools as well: optional properties stay optional, recursion is refused, and of all strict schemas of a request
# together there may be 20 tools, 24 optional properties and 16 of several types. A ``pattern`` is taken where it is
# simple; which that is the page does not say exactly, so it goes into the description, as the SDK's transform_schema
# has it.
ANTHROPIC = StrictProfile("Anthropic", words=_CLAUDE_WORDS, recursive=False, tools=20, optional=24, unions=16)

# https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html: the same subset for every model; no
# totals are named. Only some models have the mode, and the others refuse the field.
BEDROCK = StrictProfile("Bedrock", words=_CLAUDE_WORDS, recursive=False)
