"""What the HTTP response of a turn says beside its body."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["NO_STATUS", "HttpStatus"]


class HttpStatus(Struct, frozen=True):
    """The HTTP status of a response, and what its headers say of an error."""

    code: int = 0  #: 0 if there is no HTTP response
    retry_after: float | None = None  #: seconds
    error_name: str | None = None  #: such as ``ThrottlingException``; only AWS has it in a header
    location: str | None = None  #: where a redirect leads

    @property
    def is_redirect(self) -> bool:
        """Whether the response is at another address, or nowhere: it has no stream."""
        return 300 <= self.code < 400

    @property
    def is_failure(self) -> bool:
        """Whether the body is no stream, whatever it contains."""
        return self.code >= 300


NO_STATUS = HttpStatus()
