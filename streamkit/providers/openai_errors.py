"""Errors of OpenAI, in the form that Chat Completions and Responses share.

It does not depend on the chunks of either wire.
"""

from __future__ import annotations

from typing import Any, Final

from streamkit.calls import StreamError
from streamkit.providers.decoding import as_integer, as_text, error_message

__all__ = ["error_body", "to_stream_error"]

#: The type and code of the statuses that have their own: https://platform.openai.com/docs/guides/error-codes
_TYPES_AND_CODES: Final[dict[int, tuple[str, str | None]]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def error_body(status: int, message: str, code: str | None = None) -> dict[str, Any]:
    """Return the JSON body of a rejected request. *code* is the error's code; the default depends on the status."""
    default = "server_error" if status >= 500 else "invalid_request_error"
    kind, usual_code = _TYPES_AND_CODES.get(status, (default, None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code or usual_code}}


def to_stream_error(error: Any) -> StreamError:
    """Return the error that a stream reports in a field ``error``: an object, or a text.

    Gateways put the HTTP status into ``code``.
    """
    code = error.get("code") if isinstance(error, dict) else None
    message = error_message({"error": error}) or as_text(code) or "the provider reported an error"
    status = as_integer(code)
    has_status = status is not None and 400 <= status < 600
    return StreamError("provider_error", message, raw=error, status=status if has_status else None)
