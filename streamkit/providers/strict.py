"""Facts about strict modes that several providers share; ``streamkit.tools.StrictProfile`` describes the fields.

The profile of one provider is in its package. A provider has none if the tool type of its API has no field for strict
mode, or if no strict mode is documented: its requests contain a strict tool in the same form as any other tool.
"""

from __future__ import annotations

from streamkit.tools import StrictProfile

__all__ = ["CLAUDE_KEYWORDS", "OPENAI"]

# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas (read 2026-11): every property required,
# "it is possible to emulate an optional parameter by using a union type with null"; the keywords and formats below;
# 5,000 properties, 10 levels, 1,000 values in enums; recursion is accepted, by definitions or by "#". For a ``default``
# the API reports "is not permitted".
OPENAI = StrictProfile(
    "OpenAI",
    every_required=True,
    keywords={
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

# The keywords of https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations (read
# 2026-11), which Bedrock documents for every model.
CLAUDE_KEYWORDS = {
    "default": None,
    "format": frozenset(["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"]),
    "minItems": frozenset((0, 1)),
}
