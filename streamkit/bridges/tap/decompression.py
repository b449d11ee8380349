"""The decompression of the copy of a response, as its bytes arrive."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

__all__ = ["decompressor"]

#: For gzip's header or zlib's, whichever there is.
_ANY_HEADER = zlib.MAX_WBITS | 32


def decompressor(encoding: str) -> Callable[[bytes], bytes] | None:
    """Return the function that decompresses the next bytes of a body.

    Args:
        encoding: the header ``content-encoding``.

    Returns:
        The function, which raises an exception of its library for invalid bytes; None if the encoding cannot be read
        here: ``br`` needs the package ``brotli``, ``zstd`` the package ``zstandard``, and several at once cannot be.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return bytes
    if name in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(_ANY_HEADER).decompress
    if name == "br" and find_spec("brotli") is not None:
        process: Callable[[bytes], bytes] = import_module("brotli").Decompressor().process
        return process
    if name == "zstd" and find_spec("zstandard") is not None:
        decompress: Callable[[bytes], bytes] = import_module("zstandard").ZstdDecompressor().decompressobj().decompress
        return decompress
    return None
