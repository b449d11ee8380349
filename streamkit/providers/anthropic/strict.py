"""The strict mode of Anthropic's Messages API."""

from __future__ import annotations

from streamkit.providers.strict import CLAUDE_KEYWORDS
from streamkit.tools import StrictProfile

__all__ = ["STRICT"]

# https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations (read 2026-11), for
# strict tools as well: optional properties stay optional, recursion is refused, and all strict schemas of a request
# together may have 20 tools, 24 optional properties and 16 of several types. A ``pattern`` is accepted if it is simple;
# the page does not define that exactly, so it goes into the description, as in the SDK's transform_schema.
STRICT = StrictProfile("Anthropic", keywords=CLAUDE_KEYWORDS, recursive=False, tools=20, optional=24, unions=16)
