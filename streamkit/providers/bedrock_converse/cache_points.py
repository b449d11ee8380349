"""Cache points of Converse: a point follows the part that it marks.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CachePointBlock.html
"""

from __future__ import annotations

from typing import Any

from streamkit.history.content import CacheMark
from streamkit.providers.bedrock_converse.schema import Json

__all__ = ["cache_point", "read_cache_point"]


def cache_point(mark: CacheMark | Json) -> Json:
    """Return the part for a mark."""
    return {"cachePoint": {"type": "default", **mark}}


def read_cache_point(part: Any) -> CacheMark | None:
    """Return the mark of a part that is a cache point; None for any other part."""
    point = part.get("cachePoint") if isinstance(part, dict) and part.keys() == {"cachePoint"} else None
    if not isinstance(point, dict) or point.get("type") != "default":
        return None
    ttl = point.get("ttl")
    return CacheMark(ttl=ttl) if isinstance(ttl, str) else CacheMark()
