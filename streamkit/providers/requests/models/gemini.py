"""Facts about Google's models, which the Gemini API and Google's endpoint of Chat Completions share."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["SKIP_SIGNATURE", "requires_signature"]

#: The thought signature of a call that no Gemini model made (https://ai.google.dev/gemini-api/docs/thought-signatures).
SKIP_SIGNATURE: Final = "skip_thought_signature_validator"

_REQUIRES_SIGNATURE: Final = re.compile(r"(?:.*/)?gemini-(?:[3-9]|\d\d)")


def requires_signature(model: str | None) -> bool:
    """Return True if a model refuses a history in which the first call of a message has no thought signature."""
    return model is not None and _REQUIRES_SIGNATURE.match(model) is not None
