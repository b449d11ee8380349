"""Ids of tool calls: the canonical one, and what each target accepts.

Pure text functions and one table. They know neither streams nor messages nor history: who calls them brings the id, the
tool's name and the order. Nothing is random and nothing depends on the process, so a replay gives the same ids.

Three kinds of id, never mixed up: the *raw* id is what a provider sent, the *canonical* id is ours and stands in
history, the *target* id is what a request to a provider carries. Canonical to target happens at the edge, per thread:
``TargetIds``. Prefixes are told by ``startswith``, never by a pattern.

What a wire sends as an id may be of any type (``Any`` leaves): the functions that take raw ids read None as ``""`` and
everything else as its text, and never raise.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Container, Iterator
from hashlib import sha256
from itertools import count
from typing import Final

__all__ = [
    "HISTORY_PREFIX",
    "canonical_tool_id",
    "canonicalize_tool_call_id",
    "canonicalize_tool_response_id",
    "derived_tool_id",
    "id_generator",
    "is_canonical",
    "is_mistral_id",
    "is_safe_id",
    "mark_id",
    "mistral_id_candidates",
    "mistral_tool_id",
    "normalize_anthropic_tool_call_id",
    "normalize_to_history_tool_id",
    "normalize_to_openai_tool_id",
    "tool_id_strategy",
]

HISTORY_PREFIX: Final = "hist_tool_"
_OPENAI: Final = "call_"
_ANTHROPIC: Final = "toolu_"

_SAFE = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST = re.compile(r"[A-Za-z0-9_-]{24}")
_MISTRAL_FORM = re.compile(r"[A-Za-z0-9]{9}")


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _utf8(text: str) -> bytes:
    # JSON may carry half of a surrogate pair; it is hashed as it is, so that two such ids stay two
    return text.encode("utf-8", "surrogatepass")


# ---------------------------------------------------------------- the canonical id


def canonical_tool_id(
    *,
    provider_name: object = "",
    raw_id: object = "",
    tool_name: object = "",
    turn_key: object = "",
    call_index: int = 0,
) -> str:
    """The id under which history keeps a call; an id that already has the history prefix is given back unchanged.

    Args:
        provider_name: the name given to ``Turn``.
        raw_id: the provider's own id; None or ``""`` where it sent none.
        tool_name: the whole name of the tool.
        turn_key: stable name of the turn, the same on replay.
        call_index: position among the turn's client calls, from 0.

    Returns:
        ``hist_tool_`` and 24 characters of base64url. Read a wire with ``derived_tool_id``: a wire's ``hist_tool_x``
        is not ours because it says so.
    """
    raw = _as_text(raw_id)
    if raw.startswith(HISTORY_PREFIX):
        return raw
    return derived_tool_id(
        provider_name=provider_name, raw_id=raw, tool_name=tool_name, turn_key=turn_key, call_index=call_index
    )


def derived_tool_id(
    *,
    provider_name: object = "",
    raw_id: object = "",
    tool_name: object = "",
    turn_key: object = "",
    call_index: int = 0,
) -> str:
    r"""The formula alone, whatever the raw id looks like: ``canonical_tool_id`` without taking anything over.

    The seed is ``provider|raw|tool|turn|index``; ``|`` and ``\`` inside a field are escaped by ``\``, so two
    different inputs never make one seed.
    """
    seed = "|".join(
        [_escape(provider_name), _escape(raw_id), _escape(tool_name), _escape(turn_key), _escape(call_index)]
    )
    return HISTORY_PREFIX + urlsafe_b64encode(sha256(_utf8(seed)).digest()[:18]).decode()


def _escape(value: object) -> str:
    text = _as_text(value)
    if "|" in text or "\\" in text:
        return text.replace("\\", "\\\\").replace("|", "\\|")
    return text


def is_canonical(id: object) -> bool:
    """Whether this is a canonical id in its full form: ``hist_tool_`` and exactly 24 of ``[A-Za-z0-9_-]``."""
    return (
        isinstance(id, str) and id.startswith(HISTORY_PREFIX) and _DIGEST.fullmatch(id, len(HISTORY_PREFIX)) is not None
    )


def canonicalize_tool_call_id(
    *,
    provider_name: object = "",
    raw_id: object = "",
    tool_name: object = "",
    turn_key: object = "",
    call_index: int = 0,
) -> str:
    """The canonical id of a call on its way into history: a full canonical id stays, all else is derived."""
    if is_canonical(raw_id):
        return _as_text(raw_id)
    return derived_tool_id(
        provider_name=provider_name, raw_id=raw_id, tool_name=tool_name, turn_key=turn_key, call_index=call_index
    )


#: The canonical id of the call that a result answers: the same function, given the same facts *of the call*.
canonicalize_tool_response_id = canonicalize_tool_call_id


def id_generator(turn_key: str) -> Callable[[], str]:
    """A function that gives the canonical ids of a turn's calls, one after another, where nothing else is known."""
    numbers = count()
    return lambda: derived_tool_id(turn_key=turn_key, call_index=next(numbers))


# ---------------------------------------------------------------- prefixes


def normalize_to_openai_tool_id(id: str) -> str:
    """The id with OpenAI's prefix, ``call_``; what stands behind the prefix is kept as it is."""
    return _with_prefix(_OPENAI, id)


def normalize_to_history_tool_id(id: str) -> str:
    """The id with the history prefix, ``hist_tool_``; what stands behind the prefix is kept as it is."""
    return _with_prefix(HISTORY_PREFIX, id)


def _with_prefix(prefix: str, id: str) -> str:
    if id.startswith(prefix):
        return id
    for known in (_OPENAI, HISTORY_PREFIX, _ANTHROPIC):
        if id.startswith(known):
            return prefix + id[len(known) :]
    return prefix + id


# ---------------------------------------------------------------- legal forms


def normalize_anthropic_tool_call_id(id: str | None) -> str | None:
    """An id that Anthropic accepts: ``[A-Za-z0-9_-]``, 1 to 64 characters. Legal ids and None stay.

    Otherwise every other UTF-16 unit becomes ``_`` (units, so that JavaScript peers make the same id of an emoji), and
    10 hexadecimal digits of the original's SHA-256 behind the first 53 characters keep ``a|b`` and ``a.b`` apart.
    """
    return None if id is None else id if is_safe_id(id, 64) else mark_id(id, id, 64)


def is_safe_id(id: str, max_length: int) -> bool:
    """Return True if an id has at most so many characters, all of ``[A-Za-z0-9_-]``, and at least one."""
    return len(id) <= max_length and _SAFE.fullmatch(id) is not None


def mark_id(id: str, seed: str, max_length: int) -> str:
    """Return the start of *id* in the safe alphabet and a hash of *seed* that distinguishes it from others."""
    safe = _UNSAFE.sub(lambda unsafe: "__" if unsafe[0] > "\uffff" else "_", id)
    return f"{safe[: max_length - 11]}_{sha256(_utf8(seed)).hexdigest()[:10]}"


_BASE62 = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def mistral_tool_id(id: str, used: Container[str] = ()) -> str:
    """An id that Mistral accepts: exactly 9 of ``[A-Za-z0-9]``. A legal id stays.

    Args:
        id: any id; the same one gives the same result.
        used: ids that are taken in the thread; a candidate that is taken gives way to the hash with the next salt.
    """
    return next(made for made in mistral_id_candidates(id) if made not in used)


def is_mistral_id(id: str) -> bool:
    """Return True if an id is exactly 9 of ``[A-Za-z0-9]``."""
    return _MISTRAL_FORM.fullmatch(id) is not None


def mistral_id_candidates(id: str, name: str = "", number: int = 0) -> Iterator[str]:
    """Return the ids that Mistral accepts for an id, best first and without end."""
    if is_mistral_id(id):
        yield id
    yield from (_base62(sha256(_utf8(f"{id}|{salt}")).digest())[:9] for salt in count())


def _base62(digest: bytes) -> str:
    number, digits = int.from_bytes(digest, "big"), ""
    while number:
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits.rjust(9, _BASE62[0])


# ---------------------------------------------------------------- which rule applies

# A wire with a rule of its own keeps it, whatever model stands behind it: the server checks before any model sees it.
_RULES_OF_WIRES: Final = {
    "anthropic": "anthropic",
    "bedrock_invoke": "anthropic",
    "gemini": "gemini",
    "openai_responses": "openai_responses",
}
_KIMI = re.compile(r"kimi|moonshot|(?<![a-z0-9])k2(?![0-9])")  # k2, foo-k2-bar, k2p5; not mk2, k20
_MISTRAL = re.compile(r"mistral|mixtral|ministral|magistral|devstral|codestral|pixtral|voxtral|mathstral")


def tool_id_strategy(provider_name: str | None = None, model: str | None = None) -> str:
    """The target (a name in ``TARGETS``) whose rule a request must keep, by where it goes and to which model.

    Kimi and Mistral models are served by many hosts over the chat wire and Bedrock's, and there the model's rule
    counts (their servers' chat templates check it); on the other wires the wire's does.
    """
    provider, name = _as_text(provider_name).lower(), _as_text(model).lower()
    if provider in _RULES_OF_WIRES:
        return _RULES_OF_WIRES[provider]
    bedrock = provider.startswith("bedrock")
    for text in (name, provider):
        if _KIMI.search(text) and not bedrock:  # Bedrock refuses the dots and colons of Kimi's ids
            return "kimi"
        if _MISTRAL.search(text):
            return "mistral"
    return "bedrock" if bedrock else "openai_chat"
