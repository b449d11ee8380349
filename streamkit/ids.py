"""Ids of tool calls: derivation of canonical ids, and conversion to the forms that targets accept.

There are three kinds of id. The *raw* id is what a provider sent. The *canonical* id is derived here and is stored in
history. The *target* id is sent in a request; `TargetIds` assigns it when a conversation is rendered.

Rules of this module:

- It contains pure text functions and one table. It must not depend on streams, messages or history: the caller passes
  the id, the tool's name and the order.
- Nothing is random and nothing depends on the process, so a replay gives the same ids.
- Prefixes are recognized by ``startswith``, never by a pattern.
- A raw id may be of any type (``Any`` leaves). Functions that accept raw ids treat None as ``""`` and convert any other
  value to text. They never raise.

The id rule of a provider is in its package (``traits.py``), with its source. Each rendering of a conversation converts
canonical ids to target ids again. Indexes, by which servers distinguish calls, choices and blocks beside their ids, are
brought into one form here too.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any, Final

from msgspec import Struct

__all__ = [
    "DEFAULT_ID_RULE",
    "HISTORY_PREFIX",
    "IdRule",
    "TargetIds",
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
    "normalize_index",
    "normalize_to_anthropic_tool_id",
    "normalize_to_history_tool_id",
    "normalize_to_openai_tool_id",
    "prefixed_ids",
    "safe_up_to",
    "tool_id_strategy",
    "unchanged_ids",
]

HISTORY_PREFIX: Final = "hist_tool_"
_OPENAI: Final = "call_"
_ANTHROPIC: Final = "toolu_"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_SAFE = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_END_OF_INDEXES = 2**63  # more digits than Python converts to text are no index either
_DIGEST = re.compile(r"[A-Za-z0-9_-]{24}")
_INTEGER = re.compile(r"-?[0-9]{1,15}(?:\.0+)?")
_MISTRAL_FORM = re.compile(r"[A-Za-z0-9]{9}")


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _digest(seed: str) -> bytes:
    # JSON may contain half of a surrogate pair; it is hashed unchanged, so that two such ids stay different
    return sha256(seed.encode("utf-8", "surrogatepass")).digest()


# ---------------------------------------------------------------- the canonical id


def canonical_tool_id(
    *,
    provider_name: object = "",
    raw_id: object = "",
    tool_name: object = "",
    turn_key: object = "",
    call_index: int = 0,
) -> str:
    """Return the id under which history stores a call; an id with the history prefix is returned unchanged.

    Do not use it for ids from a stream: a provider may send an id with the prefix that is not canonical. Use
    ``derived_tool_id`` there.

    Args:
        provider_name: the provider's name, as passed to ``Turn``.
        raw_id: the provider's own id; None or ``""`` if it sent none.
        tool_name: the complete name of the tool.
        turn_key: stable name of the turn, the same on replay.
        call_index: position among the turn's client calls, from 0.

    Returns:
        ``hist_tool_`` and 24 characters of base64url.
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
    r"""Return the canonical id derived from these values, even if the raw id has the history prefix already.

    The arguments are those of ``canonical_tool_id``. The seed is ``provider|raw|tool|turn|index``; ``|`` and ``\``
    inside a field are escaped by ``\``, so two different inputs never have the same seed.
    """
    values: tuple[Any, ...] = (provider_name, raw_id, tool_name, turn_key, str(call_index))
    try:
        seed = "|".join(values)
    except TypeError:  # not all are texts
        seed = "|".join(map(_as_text, values))
    if "\\" in seed or seed.count("|") >= len(values):
        seed = "|".join([_as_text(value).replace("\\", "\\\\").replace("|", "\\|") for value in values])
    digest = b2a_base64(_digest(seed)[:18], newline=False)
    return HISTORY_PREFIX + digest.translate(_URL_SAFE).decode()


def is_canonical(id: object) -> bool:
    """Return True for a complete canonical id: ``hist_tool_`` and exactly 24 of ``[A-Za-z0-9_-]``."""
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
    """Return the id of a call that is added to history: a complete canonical id unchanged, or a derived one."""
    if is_canonical(raw_id):
        return _as_text(raw_id)
    return derived_tool_id(
        provider_name=provider_name, raw_id=raw_id, tool_name=tool_name, turn_key=turn_key, call_index=call_index
    )


#: Returns the canonical id of the call that a result belongs to: the same function, with the values *of the call*.
canonicalize_tool_response_id = canonicalize_tool_call_id


def id_generator(turn_key: str) -> Callable[[], str]:
    """Return a function that returns the canonical ids of a turn's calls, one after another, from their order alone."""
    numbers = count()
    return lambda: derived_tool_id(turn_key=turn_key, call_index=next(numbers))


# ---------------------------------------------------------------- indexes


def normalize_index(index: Any) -> Hashable:
    """Return an index in its one form: ``"0"``, ``0`` and ``0.0`` are 0, and None is an absent one.

    Servers in languages without integers, and gateways that keep numbers as text, send such indexes. A value that is no
    index (a fraction, a boolean, a list, an object, an empty text) is None, as if it was absent. Any other text, and
    any key that a parser made, is returned unchanged.
    """
    if index.__class__ is int:
        return index if -_END_OF_INDEXES < index < _END_OF_INDEXES else None
    if isinstance(index, str):
        text = index.strip()
        return int(text.partition(".")[0]) if _INTEGER.fullmatch(text) else text or None
    if isinstance(index, float) and index.is_integer():
        return int(index) if abs(index) < _END_OF_INDEXES else None
    return None if isinstance(index, (bool, float, list, dict)) else index


# ---------------------------------------------------------------- prefixes


def normalize_to_openai_tool_id(id: str) -> str:
    """Return the id with OpenAI's prefix, ``call_``, in place of a known prefix; the rest is unchanged."""
    return _with_prefix(_OPENAI, id)


def normalize_to_anthropic_tool_id(id: str) -> str:
    """Return the id with Anthropic's prefix, ``toolu_``, in place of a known prefix; the rest is unchanged.

    A canonical id becomes one that Anthropic accepts. ``normalize_anthropic_tool_call_id`` makes any other id legal.
    """
    return _with_prefix(_ANTHROPIC, id)


def normalize_to_history_tool_id(id: str) -> str:
    """Return the id with the history prefix, ``hist_tool_``, in place of a known prefix; the rest is unchanged."""
    return id if id.startswith(HISTORY_PREFIX) else _with_prefix(HISTORY_PREFIX, id)


def _with_prefix(prefix: str, id: str) -> str:
    if id.startswith(prefix):
        return id
    for known in (_OPENAI, HISTORY_PREFIX, _ANTHROPIC):
        if id.startswith(known):
            return prefix + id[len(known) :]
    return prefix + id


# ---------------------------------------------------------------- legal forms


def normalize_anthropic_tool_call_id(id: str | None) -> str | None:
    """Return an id that Anthropic accepts: 1 to 64 of ``[A-Za-z0-9_-]``. Legal ids and None are returned unchanged.

    In an illegal id, every UTF-16 unit outside of the alphabet becomes ``_`` (units, so that JavaScript peers derive
    the same id from an emoji). 10 hexadecimal digits of the original's SHA-256 follow the first 53 characters, so
    that ``a|b`` and ``a.b`` stay different.
    """
    return None if id is None else id if is_safe_id(id, 64) else mark_id(id, id, 64)


def is_safe_id(id: str, max_length: int) -> bool:
    """Return True if an id has 1 to ``max_length`` characters, all of ``[A-Za-z0-9_-]``."""
    return len(id) <= max_length and _SAFE.fullmatch(id) is not None


def mark_id(id: str, seed: str, max_length: int) -> str:
    """Return the start of *id* in the safe alphabet and a hash of *seed* that distinguishes it from others."""
    safe = _UNSAFE.sub(lambda unsafe: "__" if unsafe[0] > "\uffff" else "_", id)
    return f"{safe[: max_length - 11]}_{_digest(seed).hex()[:10]}"


_BASE62 = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def mistral_tool_id(id: str, used: Container[str] = ()) -> str:
    """Return an id that Mistral accepts: exactly 9 of ``[A-Za-z0-9]``. A legal id is returned unchanged.

    Args:
        id: any id; the same id gives the same result.
        used: ids that other calls of the conversation have; for a used candidate, the hash with the next salt is tried.
    """
    return next(candidate for candidate in mistral_id_candidates(id) if candidate not in used)


def is_mistral_id(id: str) -> bool:
    """Return True if an id is exactly 9 of ``[A-Za-z0-9]``."""
    return _MISTRAL_FORM.fullmatch(id) is not None


def mistral_id_candidates(id: str, name: str = "", number: int = 0) -> Iterator[str]:
    """Return the ids that Mistral accepts for an id, best first and without end."""
    if is_mistral_id(id):
        yield id
    yield from (_base62(_digest(f"{id}|{salt}"))[:9] for salt in count())


def _base62(digest: bytes) -> str:
    number, digits = int.from_bytes(digest, "big"), ""
    while number:
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits.rjust(9, _BASE62[0])


# ---------------------------------------------------------------- choice of the rule

# If a wire has its own rule, this rule applies for every model: the server checks ids before the model gets them.
_RULES_OF_WIRES: Final = {
    "anthropic": "anthropic",
    "bedrock_invoke": "anthropic",
    "gemini": "gemini",
    "openai_responses": "openai_responses",
}
_KIMI = re.compile(r"kimi|moonshot|(?<![a-z0-9])k2(?![0-9])")  # k2, foo-k2-bar, k2p5; not mk2, k20
_MISTRAL = re.compile(r"mistral|mixtral|ministral|magistral|devstral|codestral|pixtral|voxtral|mathstral")


def tool_id_strategy(provider_name: str | None = None, model: str | None = None) -> str:
    """Return the name of the id rule that a request must follow, by its provider and model.

    Many hosts serve Kimi and Mistral models with the wire formats of Chat Completions and Bedrock. There the model's
    rule applies, because the server's chat template checks the ids. With other wire formats the wire's rule applies.
    """
    provider, name = _as_text(provider_name).lower(), _as_text(model).lower()
    if provider in _RULES_OF_WIRES:
        return _RULES_OF_WIRES[provider]
    is_bedrock = provider.startswith("bedrock")
    for text in (name, provider):
        if _KIMI.search(text) and not is_bedrock:  # Bedrock rejects the dots and colons in Kimi's ids
            return "kimi"
        if _MISTRAL.search(text):
            return "mistral"
    return "bedrock" if is_bedrock else "openai_chat"


class IdRule(Struct, frozen=True):
    """The form of the ids that a target accepts for calls.

    Attributes:
        name: the name of the rule.
        accepts: returns True if the target accepts this id unchanged; called with a provider's own id that is sent
            back to it.
        make: returns the candidates for (canonical or foreign id, tool's name, running number of the call in the
            conversation), an endless iterator, best first; the first candidate that no other call has is used.
        source: the page or thread that states the rule.
    """

    name: str
    accepts: Callable[[str], bool]
    make: Callable[[str, str, int], Iterator[str]]
    source: str


def safe_up_to(max_length: int) -> Callable[[str], bool]:
    """Return a predicate that is True for ids of 1 to ``max_length`` characters, all of ``[A-Za-z0-9_-]``."""
    return partial(is_safe_id, max_length=max_length)


def prefixed_ids(
    prefix: str, max_length: int, convert: Callable[[str], str] = str
) -> Callable[[str, str, int], Iterator[str]]:
    """Return a function for `IdRule.make` that puts a prefix before each id.

    In a canonical id the prefix replaces the history prefix; any other id is passed to ``convert``. Every candidate is
    in the safe alphabet and at most ``max_length`` long: any other form is shortened and gets a hash of the original.
    """
    has_place = is_safe_id(prefix + derived_tool_id()[len(HISTORY_PREFIX) :], max_length)  # for any canonical id

    def make(id: str, name: str, number: int) -> Iterator[str]:
        is_known = is_canonical(id)
        form = prefix + id[len(HISTORY_PREFIX) :] if is_known else convert(id)
        is_legal = has_place if is_known else is_safe_id(form, max_length)
        yield form if is_legal else mark_id(form, id, max_length)
        yield from (mark_id(form, f"{id}|{salt}", max_length) for salt in count(1))

    return make


def unchanged_ids(id: str, name: str, number: int) -> Iterator[str]:
    """Yield the id unchanged, then with a number after it."""
    yield id
    yield from (f"{id}_{salt}" for salt in count(1))


#: The rule for a provider that declares none: a form that most wires accept.
DEFAULT_ID_RULE = IdRule(
    "default", safe_up_to(40), prefixed_ids("call_", 40, normalize_to_openai_tool_id), "a short id of the common form"
)


class TargetIds:
    """The target ids of one rendered conversation.

    A call and its result get the same target id; two different ids never do. If two ids have the same candidate, the
    first one gets it and the later one is hashed again, so call the methods in the order of the conversation. Create
    a new object for each rendering.

    Args:
        rule: the target's rule.
        used: ids of calls that precede this conversation; no call gets one of them.
    """

    def __init__(self, rule: IdRule, used: Iterable[str] = ()) -> None:
        self._rule = rule
        self._target_ids: dict[str, str] = {}
        self._used: set[str] = set(used)

    def call(self, id: str, name: str = "", *, origin: Any = None) -> str:
        """Return the target id of a call.

        Args:
            id: the call's id in history.
            name: its tool's name, which some rules put into the id.
            origin: the provider's own id of the call if it is sent back to that provider; it is used if the target
                accepts it and no other call has it.
        """
        assigned = self._target_ids.get(id)
        if assigned is not None:
            return assigned
        if isinstance(origin, str) and origin not in self._used and self._rule.accepts(origin):
            target_id = origin
        else:
            forms = self._rule.make(id, name, len(self._target_ids))
            while (target_id := next(forms)) in self._used:
                pass
        self._target_ids[id] = target_id
        self._used.add(target_id)
        return target_id

    def result(self, id: str, name: str = "", *, origin: Any = None) -> str:
        """Return the target id of the call that a result belongs to; a result without a call gets a new id."""
        return self.call(id, name, origin=origin)
