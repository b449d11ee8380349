"""Opaque state of an upstream as one text for an opaque field of a client's own wire, and back.

The text is base64 of the standard alphabet, because clients decode some of these fields to bytes and encode them again,
also with the other alphabet or without padding. It begins with a fixed name and version, by which it is recognized;
then follows JSON, compressed. This module must not depend on history: writers load it without pydantic.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from streamkit.providers.contract.rendered import ORIGIN_FIELDS, origin_metadata

__all__ = ["STATE_MARK", "UpstreamState", "is_wrapped_state", "unwrap_state", "wrap_state"]

#: 18 bytes, so that every wrapped state begins with the same 24 characters.
_MARK = b"streamkit-state-1:"
STATE_MARK: Final = b64encode(_MARK).decode()  #: the beginning of each
_MOST_BYTES = 64 * 1024 * 1024
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


@dataclass(frozen=True)
class UpstreamState:
    """The state of one block of a response.

    Attributes:
        origin: what made it: the fields ``provider``, ``endpoint``, ``model`` and ``requested_model``, as far as known.
        block: ``reasoning``, ``call`` or ``text``.
        fields: the fields of the block that its origin needs: of reasoning ``text``, ``kind``, ``signature`` and
            ``opaque``, of a call ``name`` and ``number``, its position among the calls of that name in the response, of
            a text ``number``, its position among the texts, unless it has the state itself.
        metadata: the block's further metadata.
        before: the states of the blocks before it, for clients that keep only those of calls. Of reasoning the field
            ``texts`` is the number of texts before it, and ``text_length`` the number of their characters, because
            clients cut and join texts.

    Where messages join blocks (`Traits.joins_blocks`), reasoning has the fields ``text_length`` and ``calls``: also the
    number of calls before it.
    """

    origin: Mapping[str, Any]
    block: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    before: Sequence[UpstreamState] = ()


def wrap_state(state: UpstreamState) -> str:
    """Return a state as one text for an opaque field."""
    data = _to_data(state)
    if state.before:
        data["before"] = [_to_data(other) for other in state.before]
    return b64encode(_MARK + zlib.compress(msgspec.json.encode(data))).decode("ascii")


def is_wrapped_state(value: Any) -> bool:
    """Return True if a value is a text that `wrap_state` returned, also if it is damaged."""
    return isinstance(value, str) and value.startswith(STATE_MARK)


def unwrap_state(text: str) -> UpstreamState | None:
    """Return the state that a text contains; None if the text is damaged or no wrapped state."""
    if not is_wrapped_state(text):
        return None
    plain = _NOT_BASE64.sub("", text.replace("-", "+").replace("_", "/"))
    try:
        packed = b64decode(plain + "=" * (-len(plain) % 4))[len(_MARK) :]
        decompressor = zlib.decompressobj()
        data = msgspec.json.decode(decompressor.decompress(packed, _MOST_BYTES))
    except (ValueError, zlib.error, RecursionError):
        return None
    if not decompressor.eof:
        return None
    state = _from_data(data)
    before = data.get("before", []) if isinstance(data, dict) else []
    if state is None or not isinstance(before, list):
        return None
    return replace(state, before=tuple([other for each in before if (other := _from_data(each)) is not None]))


def _to_data(state: UpstreamState) -> dict[str, Any]:
    return {"origin": state.origin, "block": state.block, "fields": state.fields, "metadata": state.metadata}


def _from_data(data: Any) -> UpstreamState | None:
    """Return a state without those before it; None for other data."""
    if not isinstance(data, dict):
        return None
    origin, fields, metadata = data.get("origin"), data.get("fields"), data.get("metadata")
    if not (isinstance(origin, dict) and isinstance(fields, dict) and isinstance(metadata, dict)):
        return None
    if not all(isinstance(value, str) for name, value in origin.items() if name in ORIGIN_FIELDS):
        return None
    return UpstreamState(origin_metadata(origin), str(data.get("block")), fields, metadata)
