"""Classification of a provider's errors: from the names and messages in its error object to ``StreamError.code``.

Each provider's package declares an ``ErrorRules`` with the names and messages that its documentation or its users
report. This module applies it, and must not depend on any provider.

1. The names in the error object (its type, code, status, reason, and those of the objects within it) that the rules
   list. If several are listed, the one that excludes another attempt counts: an error of type ``tokens`` with the code
   ``insufficient_quota`` is a spent quota.
2. A message that the rules list, if the names are general ones (an invalid request, a rate limit) or there is none:
   most providers report an overflow of the context as an invalid request, OpenAI and Groq also as a rate limit.
3. The HTTP status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import copy
from functools import cache
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from streamkit.calls import ErrorCode, StreamError

__all__ = ["STATUS_CODES", "ErrorRules", "MessageRule"]

#: The meaning of a status without another sign. 413 is a limit of bytes or of tokens; either way less must be sent.
STATUS_CODES: Final[dict[int, ErrorCode]] = {
    400: "invalid_request",
    401: "unauthorized",
    402: "quota_exceeded",
    403: "unauthorized",
    404: "not_found",
    413: "context_overflow",
    422: "invalid_request",
    429: "rate_limited",
    503: "overloaded",
    529: "overloaded",
}
_DEFINITE_STATUSES = (402, 413)  # these count also next to a general name, such as Groq's rate_limit_exceeded with 413

#: The order in which one of several codes is used.
_PRECEDENCE: Final[tuple[ErrorCode, ...]] = (
    "context_overflow",
    "quota_exceeded",
    "content_policy",
    "unauthorized",
    "not_found",
    "overloaded",
    "rate_limited",
    "invalid_request",
)
_GENERAL = ("invalid_request", "rate_limited", "overloaded", "not_found", "unauthorized", None)
_NAME_FIELDS = ("code", "type", "status", "__type", "reason", "error_type", "error_code", "limit_source")
_TEXT_FIELDS = ("message", "Message", "originalMessage", "detail", "error", "raw", "quotaId")
_MOST_TEXT = 4096  # characters of one message that are searched
_MOST_DEPTH, _MOST_OBJECTS = 6, 64


class MessageRule(Struct, frozen=True):
    """A message of a provider and its meaning.

    Attributes:
        code: the meaning.
        pattern: a regular expression, searched in the message without regard to case. Its groups ``limit`` and
            ``requested`` are token counts; ``output`` is added to ``requested``.
        must_exceed: the rule applies only if ``requested`` is more than ``limit``.
    """

    code: ErrorCode
    pattern: str
    must_exceed: bool = False


class ErrorRules(Struct, frozen=True):
    """What the errors of a provider mean.

    Attributes:
        codes: the meaning of names in an error object; the case of the letters does not matter.
        messages: the meaning of messages, the first one that matches counts.
        statuses: the meaning of HTTP statuses that differ from ``STATUS_CODES``.
        counts: the fields of an error object with token counts: ``limit`` or ``requested`` by the field's name.
    """

    codes: Mapping[str, ErrorCode] = field(default_factory=dict)
    messages: tuple[MessageRule, ...] = ()
    statuses: Mapping[int, ErrorCode] = field(default_factory=dict)
    counts: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: ErrorRules) -> ErrorRules:
        """Return the rules of both; those of ``other`` count first."""
        return replace(
            other,
            codes={**self.codes, **other.codes},
            messages=(*other.messages, *self.messages),
            statuses={**self.statuses, **other.statuses},
            counts={**self.counts, **other.counts},
        )

    def names(self) -> dict[ErrorCode, str]:
        """Return the provider's name of each code that it has one for: the first in the table."""
        names: dict[ErrorCode, str] = {}
        for name, code in self.codes.items():
            names.setdefault(code, name)
        return names

    def classify(self, error: StreamError) -> StreamError:
        """Return a provider's error with its code, and with the token counts of an overflow if they are given."""
        if error.kind != "provider_error" or error.code is not None:
            return error
        objects = list(_objects(error.raw))
        known = {name.casefold(): code for name, code in self.codes.items()}
        names = {name for found in objects for name in _names(found)}
        codes = {known[name] for name in names if name in known}
        status = error.status if error.status is not None else _status_in(names)
        by_status = self.statuses.get(status, STATUS_CODES.get(status)) if status is not None else None
        if by_status is not None and (not codes or status in _DEFINITE_STATUSES):
            codes.add(by_status)
        code = next((code for code in _PRECEDENCE if code in codes), None)
        counts = {
            kind: count for found in objects for name, kind in self.counts.items() if (count := _count(found.get(name)))
        }
        if code in _GENERAL or (code == "context_overflow" and not counts):
            texts = dict.fromkeys([error.message, *_texts(error.raw, objects)])  # most repeat the message
            by_message, message_counts = self._match(list(texts))
            if by_message is not None and (code in _GENERAL or by_message == code):
                code, counts = by_message, counts or message_counts
        if code is None:
            return error
        if code != "context_overflow":
            counts = {}
        classified = copy(error)  # which masks no secrets again, as a new error would
        force_setattr(classified, "code", code)
        force_setattr(classified, "limit", counts.get("limit"))
        force_setattr(classified, "requested", counts.get("requested"))
        return classified

    def _match(self, texts: list[str]) -> tuple[ErrorCode | None, dict[str, int]]:
        for rule in self.messages:
            for text in texts:
                match = _compile(rule.pattern).search(text[:_MOST_TEXT])
                if match is None:
                    continue
                found = {name: count for name, group in match.groupdict().items() if (count := _count(group))}
                output = found.pop("output", 0)
                if "requested" in found:
                    found["requested"] += output
                if not rule.must_exceed or found.get("requested", 0) > found.get("limit", 0):
                    return rule.code, found
        return None, {}


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield an error object and the objects within it, the outer ones first."""
    level, count = [value], 0
    for _ in range(_MOST_DEPTH):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                count += 1
                if count > _MOST_OBJECTS:
                    return
                yield item
                inner += item.values()
            elif isinstance(item, list):
                inner += item[:_MOST_OBJECTS]
        level = inner


def _names(found: dict[str, Any]) -> Iterator[str]:
    """Yield the names in an error object: those of its fields too, since AWS names an exception so."""
    for name in _NAME_FIELDS:
        value = found.get(name)
        if isinstance(value, (str, int)):
            yield str(value)[:128].rpartition("#")[2].casefold()  # AWS: com.amazon.coral.service#ThrottlingException
    for key in found:
        if isinstance(key, str):
            yield key.casefold()


def _texts(raw: Any, objects: list[dict[str, Any]]) -> list[str]:
    texts = [text for found in objects for name in _TEXT_FIELDS if isinstance(text := found.get(name), str)]
    return [raw, *texts] if isinstance(raw, str) else texts


def _status_in(names: set[str]) -> int | None:
    statuses = [int(name) for name in names if len(name) == 3 and name.isdecimal() and "400" <= name <= "599"]
    return statuses[0] if len(statuses) == 1 else None


def _count(value: Any) -> int | None:
    """Return a token count: a number, or a text with digits and separators; None for anything else."""
    if isinstance(value, str):
        digits = value.replace(",", "").strip()
        value = int(digits) if digits.isdecimal() and len(digits) < 16 else None
    return value if value.__class__ is int and value > 0 else None
