"""What the HTTP response of a turn says beside its body."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["NO_STATUS", "HttpStatus"]


class HttpStatus(Struct, frozen=True):
    """The HTTP status of a response, and what its headers say of an error."""

    code: int = 0  #: 0 if there is no HTTP response
    retry_after: float | None = None  #: seconds
    error_name: str | None = None  #: such as ``ThrottlingException``; only AWS has it in a header


NO_STATUS = HttpStatus()
