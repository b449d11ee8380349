"""Reading a frame that is no plain chunk: ``[DONE]``, an error of a relay, or text that is no JSON.

It reports to the sink what is no chunk, and must not depend on the fields of chunks.
"""

from __future__ import annotations

from typing import Any

from streamkit.calls import StreamError
from streamkit.providers.decoding import error_message, read_json
from streamkit.providers.lenient_json import frame_error
from streamkit.providers.sink import Sink

__all__ = ["read_irregular_frame"]


def read_irregular_frame(name: bytes, data: bytes, sink: Sink) -> dict[str, Any] | None:
    """Return the chunk of a frame as plain data; report a frame without one to the sink, and return None.

    Args:
        name: the name of the event, ``b""`` if it has none.
        data: its data.
        sink: gets the terminator, an error, or what is no object.
    """
    try:
        value = read_json(data)
    except (RecursionError, ValueError) as error:
        text = data.strip()
        if text == b"[DONE]":
            sink.terminate()
        elif name == b"error" and not text.startswith(b"{"):
            message = data.decode("utf-8", "replace")
            sink.fail(StreamError("provider_error", message or "the provider reported an error", raw=message))
        elif text and not text.startswith(b":"):
            # Gateways keep the connection by "data:" alone, or by a comment that they made the data of an event
            # ("data: : OPENROUTER PROCESSING", mnfst/llm-gateway#2053).
            sink.fail(frame_error(error, data))
        return None
    if not isinstance(value, dict):
        sink.unknown(value)
        return None
    if name == b"error" and value.get("error") is None:
        message = error_message(value) or "the provider reported an error"
        sink.fail(StreamError("provider_error", message, raw=value))
        return None
    return value
