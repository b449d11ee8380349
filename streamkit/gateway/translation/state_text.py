"""Carried state as one text: signed, compressed, and read again only if this gateway has signed it.

The text is base64 of a mark, the first 16 bytes of an HMAC-SHA256, and compressed JSON. The signature is over the mark
and the compressed bytes, and is checked before anything is inflated or decoded. The JSON begins with the origin of the
state (provider, endpoint, model), so that state cannot be moved to another one: renderers send it to its origin alone
(docs/rules.md, "Opaque state"). 16 bytes are enough: a forger has to guess 128 bits, each guess by a request, and each
call of a conversation carries the text.

Both alphabets of base64 are read, with and without padding, because clients decode some of these fields to bytes and
encode them again.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import msgspec

from streamkit.errors import UsageError
from streamkit.json_text import to_valid_json
from streamkit.providers.contract.rendered import MARKED_BYTES, is_wrapped_state
from streamkit.providers.writing.encoding import encode_json
from streamkit.values.request_changes import LeftOut, RequestChange
from streamkit.values.signatures import is_signed, sign

__all__ = ["MOST_STATES", "StateReader", "StateSettings", "UpstreamState", "wrap_state"]

_SIGNATURE_SIZE = 16
_SHORTEST_KEY = 16  # bytes
#: Texts of one request that are read; a conversation of a thousand rounds has a few thousand.
MOST_STATES = 10_000
_NOT_OURS = LeftOut(
    "opaque state of earlier responses was left out: it came back damaged, or was signed with a key that this gateway"
    " does not have"
)
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")
_RAW = -zlib.MAX_WBITS  # without a header and a checksum, which the signature replaces


class UpstreamState(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The state of one block of a response.

    Attributes:
        origin: what made it: the fields ``provider``, ``endpoint``, ``model`` and ``requested_model``, as far as known.
        block: ``reasoning``, ``call`` or ``text``; ``value`` for a field of a response that was passed on, with the
            fields ``value``, as it was, and perhaps ``id``, that of the item.
        fields: the fields of the block that its origin needs: of reasoning ``text``, ``kind``, ``signature`` and
            ``opaque``, of a call ``name`` and ``number``, its position among the calls of that name in the response, of
            a text ``number``, its position among the texts, unless it has the state itself.
        metadata: the block's further metadata.
        before: the states of the blocks before it, for clients that keep only those of calls. Of reasoning the field
            ``text_length`` is the number of characters of the texts before it, because clients cut and join texts.

    Where messages join blocks (`Traits.joins_blocks`), reasoning has the fields ``text_length`` and ``calls``: also the
    number of calls before it.
    """

    origin: dict[str, str]
    block: str
    fields: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    before: tuple[UpstreamState, ...] = ()


_DECODER = msgspec.json.Decoder(UpstreamState)


class StateSettings:
    """The keys that sign the carried state of a gateway, and how much of it one request may have.

    Args:
        keys: one key or several: the first one signs, all verify, so that a key can be replaced without losing the
            state of open conversations.
        limit: the most bytes of all state of one request, inflated.

    Raises:
        UsageError: a key is none, or has fewer than 16 bytes.
    """

    def __init__(self, keys: bytes | str | Sequence[bytes | str], limit: int) -> None:
        given = [keys] if isinstance(keys, (bytes, str)) else [*keys]
        self.keys: list[bytes] = [key.encode() if isinstance(key, str) else key for key in given]
        if not self.keys or any(not isinstance(key, bytes) or len(key) < _SHORTEST_KEY for key in self.keys):
            raise UsageError(f"state_key must be bytes or a text of at least {_SHORTEST_KEY} bytes, or a list of these")
        self.limit = limit


def wrap_state(state: UpstreamState, key: bytes) -> str:
    """Return a state as one text for an opaque field, signed with a key."""
    compressor = zlib.compressobj(wbits=_RAW)
    try:
        data = msgspec.json.encode(state)
    except (UnicodeEncodeError, OverflowError):  # as where history is stored: half a surrogate pair becomes U+FFFD
        data = encode_json(to_valid_json(msgspec.to_builtins(state)))
    packed = compressor.compress(data) + compressor.flush()
    return b64encode(MARKED_BYTES + sign(MARKED_BYTES + packed, key, _SIGNATURE_SIZE) + packed).decode("ascii")


class StateReader:
    """Reads the carried state of one request, up to its limit.

    Attributes:
        changes: a sentence for each reason why state was left out.
    """

    def __init__(self, settings: StateSettings) -> None:
        self._settings = settings
        self._bytes_left = settings.limit
        self._texts_left = MOST_STATES
        self._too_much = LeftOut(
            f"opaque state of earlier responses was left out: a request may have {settings.limit} bytes of it, in"
            f" {MOST_STATES} texts"
        )
        self.changes: dict[RequestChange, None] = {}

    def read(self, text: str) -> UpstreamState | None:
        """Return the state that a text contains; None if it is not this gateway's, or above the limit."""
        if self._texts_left == 0:
            self.changes[self._too_much] = None
            return None
        self._texts_left -= 1
        plain = _NOT_BASE64.sub("", text.replace("-", "+").replace("_", "/"))
        try:
            data = b64decode(plain + "=" * (-len(plain) % 4)) if is_wrapped_state(text) else b""
        except ValueError:
            data = b""
        start = len(MARKED_BYTES) + _SIGNATURE_SIZE
        packed = data[start:]
        if not is_signed(MARKED_BYTES + packed, data[len(MARKED_BYTES) : start], self._settings.keys, _SIGNATURE_SIZE):
            self.changes[_NOT_OURS] = None
            return None
        inflated = zlib.decompressobj(_RAW).decompress(packed, self._bytes_left + 1)
        self._bytes_left -= len(inflated)
        if self._bytes_left < 0:  # each further one could be inflated up to what is left
            self._texts_left = 0
            self.changes[self._too_much] = None
            return None
        try:
            return _DECODER.decode(inflated)
        except (ValueError, RecursionError):  # of another version of this package
            return None
