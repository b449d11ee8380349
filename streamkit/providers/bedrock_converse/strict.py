"""The strict mode of Bedrock's Converse API."""

from __future__ import annotations

from streamkit.providers.strict import CLAUDE_KEYWORDS
from streamkit.tools import StrictProfile

__all__ = ["STRICT"]

# https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html: the same subset for every model, and no
# limits for a request. Only some models have the mode, and the others refuse the field.
STRICT = StrictProfile("Bedrock", keywords=CLAUDE_KEYWORDS, recursive=False)
