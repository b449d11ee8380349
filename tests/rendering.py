"""Requests rendered without repair of the history, for tests of one provider's renderer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit import providers
from streamkit.history import Content
from streamkit.providers.provider import Provider

__all__ = ["request_of"]


def request_of(provider: Provider, contents: Sequence[Content], **options: Any) -> dict[str, Any]:
    """Return a request's body for contents as they are."""
    return providers.render_request(contents, provider, repair=False, **options)
