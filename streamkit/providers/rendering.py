"""Conversion of history to a provider's messages and requests, and of messages to history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from streamkit.errors import UsageError
from streamkit.message_format import RateMessage, check_format
from streamkit.providers.media_policy import MediaPolicy, apply_media_policy
from streamkit.providers.origin import IdPolicy
from streamkit.providers.provider import Provider, RenderedMessages, ToolChoice
from streamkit.providers.registry import get, message_formats

if TYPE_CHECKING:
    from streamkit.history import Content

__all__ = ["parse_messages", "render", "render_messages", "render_request"]


def render(
    contents: Sequence[Content],
    provider: str | Provider,
    *,
    ids: IdPolicy = "origin",
    model: str | None = None,
    endpoint: str | None = None,
    repair: bool = True,
    unsupported: MediaPolicy = "raise",
    changes: list[str] | None = None,
) -> list[dict[str, Any]]:
    """Return history as a provider's own messages.

    Args:
        contents: the conversation.
        provider: the target.
        ids: ``origin`` (a call that is sent back to its provider keeps that provider's own id, if it is legal and
            unique) or ``canonical`` (every id is derived from the canonical one).
        model: the model that is requested. Opaque state (signatures, encrypted reasoning, item ids, blocks that only
            the provider understands) of another model is left out, because it would be refused; None: the model is
            unchanged. The form of ids follows the model where servers check it.
        endpoint: the address of the server that is requested, in the form that was passed to ``Turn``. Opaque state of
            another one is left out; None: it is unchanged.
        repair: make the history legal first (``history.repair``). Without it a part of a conversation can be rendered,
            such as only the results for a provider that stores the rest (``previous_response_id``).
        unsupported: the policy for an image or file that the target cannot carry: ``raise``, ``text`` (a line of text
            that names it replaces it) or ``drop``. Those in a tool's result never raise; there ``raise`` is ``text``.
        changes: receives a sentence for each thing that was changed or left out.

    Raises:
        UsageError: ``ids`` has another value.
        UnsupportedContent: the target cannot carry an image or a file in this form, and ``unsupported`` is ``raise``.
    """
    rendered = render_messages(
        contents, provider, ids=ids, model=model, endpoint=endpoint, repair=repair, unsupported=unsupported
    )
    if changes is not None:
        changes += rendered.changes
    return rendered.messages


def render_messages(
    contents: Sequence[Content],
    provider: str | Provider,
    *,
    ids: IdPolicy = "origin",
    model: str | None = None,
    endpoint: str | None = None,
    repair: bool = True,
    unsupported: MediaPolicy = "raise",
) -> RenderedMessages:
    """Return history as a provider's messages, with system text, changes and further request fields.

    The arguments and errors are those of `render`. `Provider.build_request` builds a request from the result.
    """
    target = get(provider)
    if ids not in get_args(IdPolicy):
        raise UsageError(f"ids must be {' or '.join(map(repr, get_args(IdPolicy)))}, not {ids!r}")
    changes: list[str] = []
    legal = _repair(contents, changes) if repair else contents
    supported = apply_media_policy(legal, target, unsupported, changes)
    rendered = target.render(supported, ids=ids, model=model, endpoint=endpoint)
    rendered.changes = changes + rendered.changes
    return rendered


def render_request(
    contents: Sequence[Content],
    provider: str | Provider,
    *,
    tools: Sequence[Any] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    ids: IdPolicy = "origin",
    model: str | None = None,
    endpoint: str | None = None,
    repair: bool = True,
    unsupported: MediaPolicy = "raise",
    changes: list[str] | None = None,
) -> dict[str, Any]:
    """Return the fields of a request's body that depend on the conversation, by the provider's own names.

    Args:
        contents: the conversation.
        provider: the target.
        tools: functions, ``Tool`` objects, and the provider's own declarations as dicts.
        tool_choice: ``auto``, ``none``, ``required`` or a tool's name; None leaves it to the provider.
        stream: whether the response is to be streamed, with usage.
        ids: as in `render`.
        model: as in `render`; it is not written into the request.
        endpoint: as in `render`.
        repair: as in `render`.
        unsupported: as in `render`.
        changes: as in `render`.

    Raises:
        UsageError: ``tool_choice`` names no tool, or a strict tool's schema cannot be converted.
        UnsupportedContent: as in `render`.
    """
    from streamkit.tools import to_tools

    target = get(provider)
    rendered = render_messages(
        contents, target, ids=ids, model=model, endpoint=endpoint, repair=repair, unsupported=unsupported
    )
    if changes is not None:
        changes += rendered.changes
    tool_list = list(to_tools(tools).values())
    return target.build_request(rendered, tools=tool_list, tool_choice=tool_choice, stream=stream)


def _repair(contents: Sequence[Content], changes: list[str]) -> Sequence[Content]:
    from streamkit.history import repair

    repaired = repair(contents)
    changes += repaired.changes
    return repaired.contents


def parse_messages(
    messages: Sequence[dict[str, Any]],
    provider: str | Provider,
    *,
    system: Any = None,
    changes: list[str] | None = None,
) -> list[Content]:
    """Return a provider's own messages as history: the inverse of `render`.

    Calls and results get canonical ids that depend on their content, not on their position; the raw id is in a block's
    metadata, and ``render`` sends it back to its provider. Parts that only the provider understands
    are kept unchanged, for that provider only.

    Args:
        messages: its messages, as dicts, whatever the provider calls them (items, contents).
        provider: the provider that they belong to; ``"vercel"`` for the messages of Vercel's AI SDK that a model gets
            (``ModelMessage``), ``"vercel_ui"`` for those that ``useChat`` sends (``UIMessage``).
        system: the system text that is separate from the messages, in the provider's own form.
        changes: receives a sentence for each part that was kept as an opaque block, because history has no block for
            it, and for each field that was left out.

    Raises:
        UsageError: the messages are no list of dicts, they are of another format (the message names it), or messages
            of this provider cannot be converted. Nothing else that a message contains raises.
    """
    from streamkit.history.builder import check_messages
    from streamkit.history.vercel import parse_vercel_messages, rate_vercel_message
    from streamkit.history.vercel_ui import parse_vercel_ui_messages, rate_vercel_ui_message

    listed = check_messages(messages)
    formats: list[tuple[str, RateMessage]] = [
        ("vercel", rate_vercel_message),
        ("vercel_ui", rate_vercel_ui_message),
        *message_formats(),
    ]
    own = dict(formats).get(provider) if isinstance(provider, str) else None
    if provider in ("vercel", "vercel_ui") and own is not None:
        check_format(listed, str(provider), own, formats)
        parse = parse_vercel_messages if provider == "vercel" else parse_vercel_ui_messages
        return parse(listed, system=system, changes=changes)
    target = get(provider)
    if target.traits.has_importer:
        check_format(listed, target.name, target.traits.rate_message, formats)
    return target.parse_messages(listed, system=system, changes=changes)
