"""When a request that failed before its first event is made again, and after how long. Pure.

After the first event nothing is asked again: the reader has seen a part of the answer, and the provider has charged for
it. It knows no HTTP beyond status codes, and no clock: it is told how much time is left.
"""

from __future__ import annotations

from streamkit.calls import StreamError

__all__ = ["delay", "is_programming_error", "is_retryable"]

# What both official SDKs retry: openai-python `_should_retry` and anthropic-sdk-python `_should_retry` (408, 409, 429,
# 5xx); 425 is RFC 8470's "too early", 529 Anthropic's "overloaded".
_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

# The words for the same in an error that comes inside of a stream, whose status was 200:
# https://docs.claude.com/en/api/errors, https://platform.openai.com/docs/guides/error-codes, Bedrock's exceptions.
_WORDS = frozenset(
    {
        "overloaded_error",
        "rate_limit_error",
        "api_error",
        "timeout_error",
        "server_error",
        "rate_limit_exceeded",
        "internal_server_error",
        "service_unavailable",
        "internalServerException",
        "modelTimeoutException",
        "serviceUnavailableException",
        "throttlingException",
        "INTERNAL",
        "RESOURCE_EXHAUSTED",
        "UNAVAILABLE",
    }
)

_MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
    ValueError,
)

_FIRST, _LONGEST, _PATIENCE = 0.5, 8.0, 60.0  # seconds; as in the official SDKs


def is_retryable(error: StreamError, cause: BaseException | None) -> bool:
    """Whether to ask again may bring something else than this error, of which *cause* was raised, if anything."""
    if error.status is not None:
        return error.status in _STATUS
    if error.kind == "provider_error":
        return not _WORDS.isdisjoint(_words(error.raw))
    return error.kind in ("transport_error", "stream_truncated") and not is_programming_error(cause)


def is_programming_error(cause: BaseException | None) -> bool:
    """Whether this is raised by a mistake in the program: nobody else need be asked, it must be seen."""
    return isinstance(cause, _MISTAKES)


def delay(error: StreamError, attempt: int, jitter: float) -> float | None:
    """Seconds to wait before the next attempt; None where the provider asks for more patience than there is.

    Args:
        error: what the last attempt ended in; its ``retry_after`` is kept to.
        attempt: how many attempts there were.
        luck: a number from 0 to 1: of two clients that failed together one waits up to a quarter less.
    """
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= _PATIENCE else None
    doubled: float = _FIRST * 2.0 ** min(attempt - 1, 10)
    return min(doubled, _LONGEST) * (1 - 0.25 * jitter)


def _words(raw: object) -> set[str]:
    """The type, code and status of an error as the provider wrote it."""
    found: set[str] = set()
    for _ in range(3):  # {"type": "error", "error": {"type": "overloaded_error"}}
        if not isinstance(raw, dict):
            break
        found |= {value for name in ("type", "code", "status", "__type") if isinstance(value := raw.get(name), str)}
        found |= {name for name in raw if name in _WORDS}
        raw = raw.get("error")
    return found
