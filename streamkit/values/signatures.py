"""Signatures of data that leaves a program and comes back to it: HMAC-SHA256, compared in constant time. Pure.

Two uses exist: a stored run (`RunState.dump`) and the carried state of a gateway. What they sign begins differently, so
that one key for both makes no signature of one valid for the other.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable

__all__ = ["is_signed", "sign"]

_SIZE = 32


def sign(data: bytes, key: bytes, size: int = _SIZE) -> bytes:
    """Return the first *size* bytes of the signature of some data."""
    return hmac.digest(key, data, "sha256")[:size]


def is_signed(data: bytes, signature: bytes, keys: Iterable[bytes], size: int = _SIZE) -> bool:
    """Return True if one of the keys has made the signature, which has *size* bytes."""
    return any(hmac.compare_digest(signature, sign(data, key, size)) for key in keys)
