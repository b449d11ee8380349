"""Masking of keys and other secrets in texts that people read: errors, warnings and lines of the command line.

A message may contain a secret that nobody put there on purpose: httpx names the URL with ``?key=`` (Gemini) or
``user:password@``, and servers repeat the key or the headers of a request in their error. ``redact`` masks what has a
known form; a secret of another form cannot be recognized. It never changes content: text, arguments and results of a
conversation are passed on as they are.

Every pattern has bounded repetitions wherever a match may fail later, so the cost is linear in the text. The module
depends on nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logging import Logger

__all__ = [
    "MASK",
    "excerpt_repr",
    "is_secret_name",
    "log_failure",
    "redact",
    "redact_message",
    "redact_secrets",
    "redact_value",
]

MASK = "***"

_DEEPEST = 64  # levels of an error object; what is nested more deeply is left out
_SHORTEST_KEY = 11  # characters: of what the patterns of schemes and keys match
_SHORTEST_SECRET = 8  # characters
_LONGEST = 16_384  # characters of a message; errors of servers have a few hundred, and a page of HTML is cut anyway
_EXCERPT = 60  # characters of a value in the repr of another
_SEARCHED = 1024  # characters of it that are searched for secrets
_MOST = 65_536  # characters of an error object
_CUT = "[cut]"
_SECTION = 65_536  # characters that are searched without a pause
_LONGEST_MATCH = 8192  # characters after a section in which a match that begins in it is searched

#: Parameters of URLs that are credentials. Amazon's and Google's signed URLs have several (``X-Amz-Signature``,
#: ``X-Goog-Credential``), Azure's ``sig``, CloudFront's ``Key-Pair-Id`` and ``Policy``.
_PARAMETERS = (
    r"(?:api|access|secret|subscription|account|private|shared|master|auth|sas)?[-_]?key(?:[-_]?(?:id|pair[-_]id))?"
    r"|key-pair-id|(?:[a-z]{1,16}[-_])?token|auth|authorization|credentials?|sig|signature"
    r"|(?:client[-_])?secret|pass(?:word|wd)?|pwd|policy|jwt|session(?:id)?|awsaccesskeyid|googleaccessid"
    r"|x-(?:amz|goog)-[a-z-]{1,40}"
)
_SEPARATOR = r"(?:[?&;#]|%3f|%26|\\u0026|&amp;)"

#: Headers and fields whose value is a secret in any form.
_HEADERS = (
    r"(?:proxy-)?authorization|x-(?:[a-z]{1,20}-)?(?:api-)?key|x-(?:amz-security|auth|access)-token|x-(?:amz|goog)-signature"
    r"|(?:set-)?cookie|ocp-apim-subscription-key"
)
#: Names that are also words of ordinary sentences ("the api_key: field required"): only a value with a digit or a mark.
_FIELDS = (
    r"api[ _-]?key|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?(?:access[_-]?)?key)?|client[_-]secret|password"
    r"|(?:access|refresh|id|auth|session|bearer)[_-]?token|aws_secret_access_key|aws_session_token|private[_-]key"
)
_VALUE = r"[^\s\"',;&<>{}()\[\]\\]"

_NAMES_OF_FACTS = frozenset({"key", "policy", "session", "pass", "auth"})  # also names of harmless fields
#: Of these words each name above has one.
_WORDS = (
    *("key", "token", "auth", "credential", "sig", "secret", "pass", "pwd", "policy", "jwt", "session", "cookie"),
    *("accessid", "x-amz", "x-goog"),
)
#: Of these texts each key with a prefix of its own has one.
_KEY_PARTS = ("-", "_", "AIza", "ya29.", "AKIA", "ASIA", "ABSK", "eyJ")


@cache
def _patterns() -> _Patterns:
    return _Patterns()


class _Patterns:
    """The patterns of secrets in a text. Each is compiled on first use: all take 10 ms, and most errors need none."""

    @cached_property
    def url_parameter(self) -> re.Pattern[str]:
        return re.compile(rf"({_SEPARATOR}(?:{_PARAMETERS})(?:=|%3d))(?:(?!%26)[^&\s\"'<>#\\])+", re.IGNORECASE)

    @cached_property
    def user_info(self) -> re.Pattern[str]:
        return re.compile(r"(://)[^\s/?#\"'<>]{1,512}@")

    @cached_property
    def header(self) -> re.Pattern[str]:
        return re.compile(
            rf"(?<![\w-])((?:{_HEADERS})[\"']?\s{{0,4}}(?::|=>?|,)\s{{0,4}}(?:b?[\"'])?)(?:(?:bearer|basic|token|negotiate)\s{{1,4}})?{_VALUE}+",
            re.IGNORECASE,
        )

    @cached_property
    def field(self) -> re.Pattern[str]:
        return re.compile(
            rf"(?<![\w-])((?:{_FIELDS})(?:\s{{1,4}}(?:provided|given|used|is|was|sent)){{0,2}}[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"'`]?)"
            rf"(?!{_VALUE}{{0,64}}\*\*)(?={_VALUE}{{0,64}}[0-9_+/-])({_VALUE}{{6,}})",
            re.IGNORECASE,
        )

    @cached_property
    def scheme(self) -> re.Pattern[str]:
        return re.compile(
            r"\b((?:bearer|basic)\s{1,4})(?=[A-Za-z]{0,19}[0-9._~+/=-]|[A-Za-z]{20})[\w.~+/=-]{6,}", re.IGNORECASE
        )

    @cached_property
    def key(self) -> re.Pattern[str]:
        # Keys with a prefix of their own: OpenAI, Anthropic, OpenRouter, DeepSeek (sk-), Groq, Hugging Face, xAI,
        # Perplexity, Cerebras, NVIDIA, Replicate, Together, GitHub, GitLab, Slack, Google (key and OAuth token),
        # Amazon, a JSON Web Token.
        return re.compile(
            r"(?<![A-Za-z0-9_])(?:"
            r"(?:sk|rk|pk|csk|xai|pplx|nvapi|glpat|xox[abprs])-[A-Za-z0-9_-]{8,}"
            r"|(?:gsk|hf|r8|fw|tgp_v1|gh[pousr]|github_pat)_[A-Za-z0-9_-]{16,}"
            r"|AIza[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{10,}"
            r"|(?:AKIA|ASIA|ABSK)[A-Za-z0-9+/=]{16,}"
            r")|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?"
        )

    @cached_property
    def secret_name(self) -> re.Pattern[str]:
        return re.compile(rf"(?:{_HEADERS}|{_FIELDS}|token|{_PARAMETERS})", re.IGNORECASE)


def redact(text: str, pause: Callable[[], object] | None = None) -> str:
    """Return a text with the secrets in it replaced by ``***``.

    Masked are the credentials of URLs (``user:password@`` and parameters such as ``key``, ``api_key``, ``token``,
    ``sig``, ``X-Amz-...``), the values of headers and fields that hold keys, ``Bearer`` and ``Basic`` credentials, and
    keys with a known prefix (``sk-``, ``AIza``, ``hf_``, ...).

    Args:
        text: the text.
        pause: called after every 65,536 characters of a search, so that a thread with a long text lets others run: one
            search of 10 MB takes a quarter of a second, in which Python runs no other thread.
    """
    patterns, folded = _patterns(), text.casefold()
    has_name = _has_any(folded, _WORDS)
    if has_name and ("=" in text or "%3" in text):
        text = _substitute(patterns.url_parameter, rf"\1{MASK}", text, pause)
    if "@" in text:
        text = _substitute(patterns.user_info, rf"\1{MASK}@", text, pause)
    has_value = ":" in text or "=" in text
    if has_name and (has_value or "," in text):
        text = _substitute(patterns.header, rf"\1{MASK}", text, pause)
    if has_name and has_value:
        text = _substitute(patterns.field, rf"\1{MASK}", text, pause)
    if len(text) < _SHORTEST_KEY:
        return text
    if "bearer" in folded or "basic" in folded:
        text = _substitute(patterns.scheme, rf"\1{MASK}", text, pause)
    return _substitute(patterns.key, MASK, text, pause) if _has_any(text, _KEY_PARTS) else text


def _substitute(pattern: re.Pattern[str], replacement: str, text: str, pause: Callable[[], object] | None) -> str:
    """Return what ``pattern.sub`` returns, with a pause after each section of the text."""
    if pause is None or len(text) <= _SECTION:
        return pattern.sub(replacement, text)
    pieces: list[str] = []
    copied = start = 0
    while start < len(text):
        end = start + _SECTION
        # A match begins in the section and may end after it.
        match = pattern.search(text, start, end + _LONGEST_MATCH)
        if match is not None and match.end() == end + _LONGEST_MATCH:
            match = pattern.search(text, match.start())
        if match is None or match.start() >= end:
            start = end
            pause()
            continue
        pieces += (text[copied : match.start()], match.expand(replacement))
        copied = start = match.end()
    return "".join([*pieces, text[copied:]])


def _has_any(text: str, parts: tuple[str, ...]) -> bool:
    return any(part in text for part in parts)


def redact_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text without these secrets. One of fewer than 8 characters is a placeholder and stays.

    Local servers take any key, and their users write "ollama", "EMPTY" or "x", which is also a part of other words.
    """
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, MASK)
    return text


def redact_message(text: str) -> str:
    """Return a message with its secrets masked, and cut if it has more than 16,384 characters."""
    return redact(text) if len(text) <= _LONGEST else redact(text[:_LONGEST]) + " [cut]"


def excerpt_repr(value: Any) -> str:
    """Return the beginning of a value's ``repr`` with the secrets in it masked."""
    try:
        text = repr(value[:_SEARCHED] if isinstance(value, str) else value)
    except Exception as error:  # a debugger must get a text
        return f"<{type(value).__name__}: {type(error).__name__}>"
    masked = redact(text[:_SEARCHED])  # before it is cut, because the beginning of a key is not recognized
    return masked if len(masked) <= _EXCERPT else f"{masked[:_EXCERPT]}..."


def log_failure(logger: Logger, message: str, *arguments: object, error: BaseException) -> None:
    """Log a warning with the traceback of an exception, in whose text the secrets are masked.

    The record has the exception itself, for handlers that report it in a form of their own. Those that write text take
    ``exc_text``, as logging's formatter does if it is set.
    """
    import logging  # the programs that import this module mostly log nothing

    if not logger.isEnabledFor(logging.WARNING):
        return
    file, line, function, _ = logger.findCaller(stacklevel=2)
    failure = (type(error), error, error.__traceback__)
    record = logger.makeRecord(logger.name, logging.WARNING, file, line, message, arguments, failure, func=function)
    record.exc_text = redact(logging.Formatter().formatException(failure))
    logger.handle(record)


def redact_value(value: Any) -> Any:
    """Return plain data (an error object) with the secrets in its texts, names and secret fields masked.

    Texts after the first 65,536 characters are cut: an error that a server sends is not a way to hold up its reader.
    """
    return _Redaction().redact(value, _DEEPEST)


class _Redaction:
    """The masking of one value, with the number of characters that are still kept."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST

    def _text(self, text: str) -> str:
        left, self._left = self._left, self._left - len(text)
        was_cut = text.endswith(_CUT) and len(text) <= 2 * left + len(_CUT)  # when it was stored
        if len(text) <= left or was_cut:
            return redact(text)
        return redact(text[: max(left, 0)]) + _CUT

    def redact(self, value: Any, levels: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, (dict, list, tuple)):
            if value and (not levels or self._left <= 0):
                return "[nested too deeply]" if self._left > 0 else _CUT
            self._left -= len(value)
        if isinstance(value, dict):
            return {
                (self._text(name) if isinstance(name, str) else name): (
                    MASK
                    if isinstance(item, str) and item and isinstance(name, str) and is_secret_name(name)
                    else self.redact(item, levels - 1)
                )
                for name, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            if len(value) == 2 and all(isinstance(item, str) for item in value) and is_secret_name(value[0]):
                return [value[0], MASK]  # a header
            return [self.redact(item, levels - 1) for item in value]
        return value


def is_secret_name(name: str) -> bool:
    """Return whether a field of this name holds a secret."""
    return (
        len(name) <= 64
        and name.lower() not in _NAMES_OF_FACTS
        and _has_any(name.casefold(), _WORDS)
        and _patterns().secret_name.fullmatch(name) is not None
    )
