"""``GatewayLimits``: limits of the requests of clients."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.time_limits import check_seconds

__all__ = ["GatewayLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Limits of the requests of clients.

    Attributes:
        body: bytes of a request's body; a longer one is refused with status 413.
        requests: responses that are open at the same time; further requests are refused as overloaded (status 503).
        stored: bytes of the latest responses of Responses clients, to which their later requests may refer.
        silence: seconds without anything to send after which a streamed response gets a heartbeat of the client's
            wire; None for no heartbeats.

    Raises:
        UsageError: the number of seconds is not above 0.
    """

    body: int = 64 * 1024 * 1024
    requests: int = 1000
    stored: int = 64 * 1024 * 1024
    silence: float | None = 15.0

    def __post_init__(self) -> None:
        check_seconds("silence", self.silence)
