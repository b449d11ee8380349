"""What a vendor signs its calls with, so that the embedded server can hold its clients to sending it back."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

__all__ = ["make_signature"]


def make_signature(provider: str, model: str, seed: str) -> dict[str, Any]:
    """The metadata of a call, the first of an answer, by the provider's own names; the same seed gives the same.

    Gemini 3 signs the first call of each step, and refuses it unsigned
    (https://ai.google.dev/gemini-api/docs/thought-signatures).
    """
    if provider != "gemini" or "gemini-3" not in model.lower():
        return {}
    return {"thoughtSignature": base64.b64encode(hashlib.sha256(f"signature|{seed}".encode()).digest()).decode()}
