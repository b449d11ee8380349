"""The providers there are, by name. Each room of this folder is a vendor, found by itself; nothing is listed here.

``protocol.py`` says what a provider is, ``wire.py`` how a chunk is read leniently, ``rendered.py`` what a render gives.
A third party's provider comes by ``register`` or by the entry point group ``streamkit.providers``; one that speaks a
known wire a little differently is made by ``dialect``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from streamkit.errors import UnknownProvider, UsageError
from streamkit.providers.media_policy import MediaPolicy, apply_media_policy
from streamkit.providers.provider import IdPolicy, Provider, ReadsThreads, ToolChoice

if TYPE_CHECKING:
    from streamkit.history import Content
    from streamkit.tools import Tool

__all__ = ["detect", "dialect", "parse_messages", "get", "names", "register", "render", "render_request"]

_registered: dict[str, Provider] = {}
_rooms_loaded = False
_entry_points_loaded = False


def get(provider: str | Provider) -> Provider:
    """The provider of that name; an object that is a provider is given back.

    Raises:
        UnknownProvider: there is none of that name; the message lists those there are.
    """
    if not isinstance(provider, str):
        if not callable(getattr(provider, "parser", None)):
            raise UsageError(f"a provider is a name or an object with parser(), not {type(provider).__name__}")
        return provider
    found = _registered.get(provider)
    if found is None and provider.isidentifier() and find_spec(f"{__name__}.{provider}") is not None:
        _load_room(provider)  # most people use one or two: the other rooms stay shut
        found = _registered.get(provider)
    if found is None:
        _load_rooms()
        found = _registered.get(provider)
    if found is None:
        _load_entry_points()
        found = _registered.get(provider)
    if found is None:
        raise UnknownProvider(provider, _registered)
    return found


def names() -> list[str]:
    """The names of all providers, sorted."""
    _load_rooms()
    _load_entry_points()
    return sorted(_registered)


def register(provider: Provider) -> None:
    """Make a provider known by its name.

    Raises:
        UsageError: another one has that name.
    """
    known = _registered.setdefault(provider.name, provider)
    if known is not provider:
        raise UsageError(f"a provider named {provider.name!r} is registered already")


def dialect(
    name: str,
    base: str | Provider = "openai_chat",
    *,
    rewrite: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    **facts: Any,
) -> Provider:
    """A provider of one's own that speaks a known wire: an object, accepted wherever a provider's name is.

    It has a name of its own, so its calls have ids of their own, and what it wants back goes to it alone. Under the
    name of its base it stands in for that, with the same history. ``register`` makes it known by its name::

        def renamed(chunk):  # acme streams its reasoning where nobody looks for it
            for choice in chunk["choices"]:
                choice["delta"]["reasoning"] = choice["delta"].pop("thoughts", None)
            return chunk

        acme = providers.dialect("acme", rewrite=renamed, stream_usage=False)

    Args:
        name: its name.
        base: the provider whose facts it begins with; one of Chat Completions'.
        rewrite: applied to every chunk, as a dict, before it is read. What it raises is raised by ``feed``.
        facts: what is different; for Chat Completions see ``openai_chat.ChatFacts``.

    Raises:
        UsageError: the base has no dialects, or no such fact.
        UnknownProvider: there is no such base.
    """
    of = get(base)
    made = getattr(of, "dialect", None)
    if made is None:
        raise UsageError(f"{of.name!r} has no dialects; a provider of the chat wire has, such as 'openai_chat'")
    provider: Provider = made(name, rewrite=rewrite, **facts)
    return provider


def detect(data: bytes) -> str | None:
    """The name of the wire that a body's first bytes belong to, or None where they do not tell."""
    head = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    found = [name for name in names() if _registered[name].detect(head)]
    return found[0] if len(found) == 1 else None


def render(
    contents: Sequence[Content],
    provider: str | Provider,
    *,
    ids: IdPolicy | None = None,
    repair: bool = True,
    unsupported: MediaPolicy = "raise",
    changes: list[str] | None = None,
) -> list[dict[str, Any]]:
    """History as a provider's own messages.

    Args:
        contents: the conversation.
        provider: the target.
        ids: ``canonical`` (every id made from the canonical one) or ``origin`` (a call that goes back to where it came
            from keeps the provider's own id); None is the target's own default.
        repair: make the history legal first (``history.repair``). Without it a part of a conversation can be rendered,
            such as the results alone for a provider that keeps the rest itself (``previous_response_id``).
        unsupported: what becomes of an image or a file that the target cannot carry: ``raise``, ``text`` (a line that
            names it stands in its place) or ``drop``. What a tool returned never raises; there ``raise`` is ``text``.
        changes: takes a sentence for each thing that was changed or left out.

    Raises:
        UnsupportedContent: the target cannot carry an image or a file in this form, and ``unsupported`` is ``raise``.
    """
    said = changes if changes is not None else []
    target = get(provider)
    legal = _legal(contents, said) if repair else contents
    rendered = target.render(apply_media_policy(legal, target, unsupported, said), ids=ids)
    said += rendered.changes
    return rendered.messages


def render_request(
    contents: Sequence[Content],
    provider: str | Provider,
    *,
    tools: Sequence[Any] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    ids: IdPolicy | None = None,
    repair: bool = True,
    unsupported: MediaPolicy = "raise",
) -> dict[str, Any]:
    """Every field of a request's body that the conversation decides, by the provider's own names.

    Args:
        contents: the conversation.
        provider: the target.
        tools: functions or ``Tool`` objects.
        tool_choice: ``auto``, ``none``, ``required`` or a tool's name; None leaves it to the provider.
        stream: whether the answer shall be streamed, with usage.
        ids: as in ``render``.
        repair: as in ``render``.
        unsupported: as in ``render``.
    """
    from streamkit.tools import to_tools

    known: Sequence[Tool] = list(to_tools(tools).values())
    target = get(provider)
    legal = apply_media_policy(_legal(contents, []) if repair else contents, target, unsupported, [])
    return target.render_request(legal, tools=known, tool_choice=tool_choice, stream=stream, ids=ids)


def _legal(contents: Sequence[Content], changes: list[str]) -> Sequence[Content]:
    from streamkit.history import repair

    repaired = repair(contents)
    changes += repaired.changes
    return repaired.contents


def parse_messages(
    messages: Sequence[dict[str, Any]], provider: str | Provider, *, system: Any = None
) -> list[Content]:
    """A provider's own thread as history: the way back from ``render``.

    Calls and results get canonical ids that follow from what they say, not from where they stand; the raw id is in a
    block's metadata, and ``render(..., ids="origin")`` gives it back to its provider. What only the provider knows is
    kept as it came, for it alone.

    Args:
        messages: its messages (of Responses: items; of Gemini: contents), as dicts.
        provider: whose they are; or ``"vercel"``, for the messages of Vercel's AI SDK.
        system: system text that the wire has outside of the messages, in the provider's own form.

    Raises:
        UsageError: the messages are no list of dicts, they are nested too deeply to be stored, or the provider has no
            way back. Nothing else that a message holds raises: what is not known becomes an opaque block.
    """
    from streamkit.history import parse_vercel_messages
    from streamkit.history.builder import check_messages

    of = None if provider == "vercel" else get(provider)
    if of is not None and not isinstance(of, ReadsThreads):
        raise UsageError(f"the provider {of.name!r} has no way back from its messages to history")
    try:
        if of is None:
            return parse_vercel_messages(messages, system=system)
        return of.parse_messages(check_messages(messages), system=system)
    except RecursionError:
        raise UsageError("the messages are nested too deeply") from None


def _load_rooms() -> None:
    global _rooms_loaded
    if _rooms_loaded:
        return
    _rooms_loaded = True
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            _load_room(module.name)


def _load_room(name: str) -> None:
    for provider in getattr(import_module(f"{__name__}.{name}"), "PROVIDERS", ()):
        register(provider)


def _load_entry_points() -> None:
    global _entry_points_loaded
    if _entry_points_loaded:
        return
    _entry_points_loaded = True
    from importlib.metadata import entry_points  # a third of this package's import time, and rarely needed

    for point in entry_points(group="streamkit.providers"):
        register(point.load())
