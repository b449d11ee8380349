"""Classification of a provider's errors: from the names and messages in its error object to ``StreamError.code``.

Each provider's package declares an ``ErrorRules`` with the names and messages that its documentation or its users
report. This module applies it, and must not depend on any provider.

1. The names in the error object (its type, code, status, reason, and those of the objects within it) that the rules
   list. If several are listed, the one that excludes another attempt counts: an error of type ``tokens`` with the code
   ``insufficient_quota`` is a spent quota.
2. A message that the rules list, if the names are general ones (an invalid request, a rate limit) or there is none:
   most providers report an overflow of the context as an invalid request, OpenAI and Groq also as a rate limit.
3. The HTTP status.

The same rules write an error of any provider for the clients of this one: in their names and statuses, and an overflow
of the context in the words by which they recognize it.
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

__all__ = ["LITELLM_OVERFLOW", "STATUS_CODES", "ErrorRules", "MessageRule"]

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
#: The statuses with which an error of each meaning is written, the usual one first. Others mean something else to
#: clients that decide by the status: Google's 400 for a key that is not valid, a 500 of llama.cpp for an overflow,
#: which SDKs repeat, or Anthropic's 529, which SDKs of other providers do not repeat (google-genai:
#: ``_RETRY_HTTP_STATUS_CODES``, botocore: ``_TRANSIENT_STATUS_CODES``).
_WRITTEN_STATUSES: Final[dict[ErrorCode, tuple[int, ...]]] = {
    "invalid_request": (400, 422),
    "unauthorized": (401, 403),
    "quota_exceeded": (402, 400, 403, 429),
    "not_found": (404,),
    "context_overflow": (400, 413, 429),
    "rate_limited": (429,),
    "overloaded": (503, 429, 500, 502, 504),
    "content_policy": (400, 403),
}
#: These count also next to a general name, such as Groq's rate_limit_exceeded with 413, OpenAI's invalid_request_error
#: with 404, or LiteLLM's with 401.
_DEFINITE_STATUSES = (401, 402, 404, 413)

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
_GAP: Final = "\0"  # no pattern has one
#: Letters that a pattern takes for others without regard to case, and that ``lower`` does not.
_ALIKE: Final = str.maketrans("\u0130\u0131\u017f\u212a", "iisk")


class MessageRule(Struct, frozen=True):
    """A message of a provider and its meaning."""

    code: ErrorCode  #: the meaning
    #: a regular expression without flags, searched in the message without regard to case. Its groups ``limit`` and
    #: ``requested`` are token counts; ``output`` is added to ``requested``.
    pattern: str
    must_exceed: bool = False  #: the rule applies only if ``requested`` is more than ``limit``
    is_own: bool = True  #: whether the provider itself sends the message; False: gateways that have its wire


#: LiteLLM's proxy begins the message of an overflow with the name of its exception, on each of its wires.
LITELLM_OVERFLOW: Final = MessageRule("context_overflow", r"litellm\.contextwindowexceedederror", is_own=False)


class ErrorRules(Struct, frozen=True):
    """What the errors of a provider mean."""

    #: the meaning of names in an error object; the case of the letters does not matter
    codes: Mapping[str, ErrorCode] = field(default_factory=dict)
    messages: tuple[MessageRule, ...] = ()  #: the meaning of messages, the first one that matches counts
    #: the meaning of HTTP statuses that differ from ``STATUS_CODES``
    statuses: Mapping[int, ErrorCode] = field(default_factory=dict)
    #: the fields of an error object with token counts: ``limit`` or ``requested`` by the field's name
    counts: Mapping[str, str] = field(default_factory=dict)
    #: the meanings for which no name in ``codes`` is written: it is a narrower one, or not the field's
    unnamed: frozenset[ErrorCode] = frozenset()
    #: the provider's sentences for a prompt that exceeds the context, with ``{limit}`` and ``{requested}`` for the
    #: token counts; the first one whose counts are known is written
    overflow: tuple[str, ...] = ()

    def __add__(self, other: ErrorRules) -> ErrorRules:
        """Return the rules of both; those of ``other`` count first."""
        return replace(
            other,
            codes={**self.codes, **other.codes},
            messages=(*other.messages, *self.messages),
            statuses={**self.statuses, **other.statuses},
            counts={**self.counts, **other.counts},
            unnamed=self.unnamed | other.unnamed,
            overflow=other.overflow or self.overflow,
        )

    def names(self) -> dict[ErrorCode, str]:
        """Return the name that the provider writes for each code that it has one for: the first in the table."""
        names: dict[ErrorCode, str] = {}
        for name, code in self.codes.items():
            if code not in self.unnamed:
                names.setdefault(code, name)
        return names

    def written_status(self, error: StreamError) -> int:
        """Return the HTTP status with which an error of any provider is written for clients of this one.

        An error without a code is one of the server: its status would name another meaning on another wire.
        """
        if error.code is None:
            return 500
        statuses = _WRITTEN_STATUSES[error.code]
        if error.status is not None and (error.status in statuses or self.statuses.get(error.status) == error.code):
            return error.status
        return statuses[0]

    def written_message(self, error: StreamError) -> str:
        """Return the message with which an error of any provider is written for clients of this one.

        Clients shorten the conversation if they find the provider's own words for an overflow of the context: Claude
        Code "prompt is too long" (anthropics/claude-code#11281), LiteLLM "maximum context length is" (its
        ``exception_mapping_utils``). These precede the words of another provider. A limit of bytes (413) is none of
        tokens.
        """
        message = error.message or "the provider reported an error"  # on Ollama an empty one is no error
        counts = {"limit": error.limit, "requested": error.requested}
        known = {name: count for name, count in counts.items() if count is not None}
        if error.code != "context_overflow" or (error.status == 413 and not known) or self._has_own_overflow(message):
            return message
        unknown = [f"{{{name}}}" for name in counts.keys() - known.keys()]
        sentences = [text for text in self.overflow if not any(name in text for name in unknown)]
        return f"{sentences[0].format(**known)} ({message})" if sentences else message

    def _has_own_overflow(self, message: str) -> bool:
        rules = [rule for rule in self.messages if rule.code == "context_overflow" and rule.is_own]
        text, folded = _searched(message)
        return any(_search(rule, text, folded) for rule in rules)

    def classify(self, error: StreamError) -> StreamError:
        """Return a provider's error with its code, and with the token counts of an overflow if they are given."""
        if error.kind != "provider_error" or error.code is not None:
            return error
        objects = list(_objects(error.raw))
        known = {name.casefold(): code for name, code in self.codes.items()}
        names = {name for found in objects for name in _names(found)}
        codes = {known[name] for name in names if name in known}
        status = error.status
        if status is None:
            named = [int(name) for name in names if len(name) == 3 and name.isdecimal() and "400" <= name <= "599"]
            status = named[0] if len(named) == 1 else None
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
        searched = [_searched(text) for text in texts]
        for rule in self.messages:
            for text, folded in searched:
                match = _search(rule, text, folded)
                if match is None:
                    continue
                found = {name: count for name, group in match.groupdict().items() if (count := _count(group))}
                output = found.pop("output", 0)
                if "requested" in found:
                    found["requested"] += output
                if not rule.must_exceed or found.get("requested", 0) > found.get("limit", 0):
                    return rule.code, found
        return None, {}


def _searched(text: str) -> tuple[str, str]:
    """Return the part of a message that is searched, and the same in lower case."""
    text = text[:_MOST_TEXT]
    return text, text.translate(_ALIKE).lower()


def _search(rule: MessageRule, text: str, folded: str) -> re.Match[str] | None:
    """Return the match of a rule in a message.

    Its pattern is compiled if the message has a part of it: compiling all of a provider takes 30 ms at the first error.
    """
    pattern = rule.pattern
    return _compile(pattern).search(text) if any(part in folded for part in _plain_parts(pattern)) else None


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@cache
def _plain_parts(pattern: str) -> list[str]:
    """Return texts in lower case of which every match has one: of each alternative the longest without syntax."""
    plain = re.sub(r"\\.|\[\^?\]?[^\]]*\]", _GAP, pattern)
    while "(" in plain:
        plain = re.sub(r"\([^()]*\)", _GAP, plain)
    plain = re.sub(r".?\{[^}]*\}\??|.[+?*]\??|[.^$]", _GAP, plain)
    return [max(part.split(_GAP), key=len).lower() for part in plain.split("|")]


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
        if isinstance(value, str) or (isinstance(value, int) and value.bit_length() < 64):  # longer ones have no text
            yield str(value)[:128].rpartition("#")[2].casefold()  # AWS: com.amazon.coral.service#ThrottlingException
    for key in found:
        if isinstance(key, str):
            yield key.casefold()


def _texts(raw: Any, objects: list[dict[str, Any]]) -> list[str]:
    texts = [text for found in objects for name in _TEXT_FIELDS if isinstance(text := found.get(name), str)]
    return [raw, *texts] if isinstance(raw, str) else texts


def _count(value: Any) -> int | None:
    """Return a token count: a number, or a text with digits and separators; None for anything else."""
    if isinstance(value, str):
        digits = value.replace(",", "").strip()
        value = int(digits) if digits.isdecimal() and len(digits) < 16 else None
    return value if value.__class__ is int and value > 0 else None
