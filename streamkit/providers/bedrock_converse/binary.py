"""Binary values of Converse as the base64 text that they are in JSON; boto3 has them as bytes.

This module must not depend on sinks, history or requests.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

__all__ = ["encode_binary"]


def encode_binary(value: Any) -> Any:
    """Return plain data with base64 text for the bytes that boto3 yields; the value itself if it contains none."""
    if isinstance(value, dict):
        items = {name: encode_binary(item) for name, item in value.items()}
        return items if any(items[name] is not item for name, item in value.items()) else value
    if isinstance(value, list):
        elements = [encode_binary(item) for item in value]
        return elements if any(new is not old for new, old in zip(elements, value, strict=True)) else value
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode()
    return value
