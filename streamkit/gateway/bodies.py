"""The bodies of clients' requests: read within a limit, decompressed and decoded.

The limit counts the bytes before and after decompression, because 64 KiB can expand to gigabytes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from streamkit.json_text import replace_lone_surrogates

__all__ = ["BodyRefused", "read_json"]


class BodyRefused(Exception):
    """A body that is not accepted.

    Attributes:
        status: the HTTP status of the response.
        headers: its headers.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


async def read_json(receive: Receive, headers: Mapping[str, str], limit: int) -> Any:
    """Return the decoded body of a request.

    Args:
        receive: the application's.
        headers: the request's headers, with names in lower case.
        limit: the most bytes of the body, compressed and decompressed.

    Raises:
        BodyRefused: it is too large, its encoding is unknown, or it is not JSON.
        ClientDisconnect: the client left before its end.
    """
    length = headers.get("content-length", "")
    if length.isdecimal():
        _check_size(int(length), limit)
    decoders = [_decoder(name) for name in _encodings(headers)]
    body = await _read_body(receive, limit)
    for decode in decoders:
        body = decode(body, limit + 1)
        _check_size(len(body), limit)
    try:
        return msgspec.json.decode(body if b"\\ud" not in body.lower() else _replace_halves(body))
    except (ValueError, RecursionError) as error:
        raise BodyRefused(400, f"the body is not JSON: {error}") from None


async def _read_body(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        _check_size(size, limit)
        if not message.get("more_body", False):
            return b"".join(parts)


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise BodyRefused(413, f"the body has more than {limit} bytes, the limit of this gateway")


def _encodings(headers: Mapping[str, str]) -> list[str]:
    """Return the names of the content codings in the order in which they are removed (RFC 9110, section 8.4)."""
    if (given := headers.get("content-encoding")) is None:
        return []
    names = [name.strip().lower() for name in given.split(",")]
    return [name for name in reversed(names) if name not in ("", "identity")]


def _replace_halves(body: bytes) -> bytes:
    """Return JSON with U+FFFD for each half of a surrogate pair, as clients send that cut a text within an emoji.

    APIs refuse it in this request and in all later ones of the conversation
    (https://github.com/anthropics/claude-code/issues/2108).
    """
    return json.dumps(replace_lone_surrogates(json.loads(body))).encode()


def _decoder(name: str) -> Callable[[bytes, int], bytes]:
    """Return the function that decompresses a body to at most a number of bytes.

    Raises:
        BodyRefused: the encoding is unknown.
    """
    if (decoder := _DECODERS.get(name)) is not None:
        return decoder
    if name == "zstd" and (found := _zstd_decoder()) is not None:
        return found
    accepted = ", ".join([*dict.fromkeys(_DECODERS), *(["zstd"] if _zstd_decoder() is not None else [])])
    message = f"the content-encoding {name!r} is not accepted: send {accepted} or no encoding"
    raise BodyRefused(415, message, {"accept-encoding": accepted})  # RFC 7694


def _decode_gzip(data: bytes, most: int) -> bytes:
    return _inflate(data, most, "gzip", 16 + zlib.MAX_WBITS)


def _decode_deflate(data: bytes, most: int) -> bytes:
    # "Some non-conformant implementations send the deflate data without the zlib wrapper" (RFC 9110, section 8.4.1.2).
    has_header = len(data) > 1 and data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
    return _inflate(data, most, "deflate", zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _inflate(data: bytes, most: int, name: str, window_bits: int) -> bytes:
    decompressor = zlib.decompressobj(window_bits)
    try:
        body = decompressor.decompress(data, most)
    except zlib.error as error:
        raise BodyRefused(400, f"the body is not {name}: {error}") from None
    if len(body) < most and not decompressor.eof:
        raise BodyRefused(400, f"the body is not {name}: it is not complete")
    return body


def _zstd_decoder() -> Callable[[bytes, int], bytes] | None:
    """Return the decoder of Zstandard, None without the package ``zstandard``."""
    try:
        zstandard = import_module("zstandard")
    except ModuleNotFoundError:
        return None

    def decode(data: bytes, most: int) -> bytes:
        try:
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                return bytes(reader.read(most))
        except zstandard.ZstdError as error:
            raise BodyRefused(400, f"the body is not zstd: {error}") from None

    return decode


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _decode_gzip,
    "x-gzip": _decode_gzip,  # RFC 9110, section 8.4.1.3
    "deflate": _decode_deflate,
}
