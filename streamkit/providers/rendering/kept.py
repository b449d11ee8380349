"""What was rendered of a conversation, kept while it grows, so that a round renders only what is new.

- A conversation that begins with the same contents as before, for the same target, is rendered from there on. Any
  other one is rendered from nothing: after an edit, or if what is new needs a repair. The messages are the same.
- Contents are values. What is replaced, added or removed, also in the ``blocks`` of a content, and every field that is
  assigned, is noticed; a change inside of ``metadata``, ``parameters`` or a result is not (docs/rules.md, "Rounds").
- Only what precedes the last results, without the last content, is kept: how a call or its reasoning is sent may
  depend on what follows in its turn, and the last content has the mark for a provider's cache.
- The messages of a request are the caller's, who may change them: what is kept is compared with them.
- A rendering is in the context of its conversation, and taken out of it while it is used: another thread, or another
  conversation from the same context, renders from nothing in the meantime.

This module must not depend on a provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from operator import is_
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from streamkit.history.content import CacheMark, Content, TextBlock, ToolResponseBlock, to_contents
from streamkit.history.input_checks import prepare_contents
from streamkit.history.repair import HistoryCheck, repair_contents
from streamkit.ids import TargetIds
from streamkit.providers.contract.rendered import RenderOptions
from streamkit.providers.provider import Provider, RenderedMessages
from streamkit.providers.rendering.conversion import render_messages
from streamkit.providers.rendering.media import apply_media_policy
from streamkit.providers.rendering.message_renderer import Json, MessageIds, MessageRenderer
from streamkit.providers.requests.request import mark_contents
from streamkit.values.json_data import copy_json
from streamkit.values.request_changes import RequestChange

__all__ = ["Renderings", "render_longer"]

AnyState = TypeVar("AnyState")
_MOST_KEPT = 4  #: targets of one conversation, such as a provider and its fallbacks


def render_longer(
    renderings: Renderings,
    contents: Sequence[Content],
    provider: Provider,
    options: RenderOptions,
    mark: CacheMark | None,
) -> RenderedMessages:
    """Return a conversation in the provider's form as ``render_messages`` does, with the mark of ``mark_contents``.

    *renderings* is what was kept of the conversation, and receives what is kept of this rendering.
    """
    key = (provider, options, None if mark is None else mark.get("ttl", ""))
    kept, rendered = None, None
    if type(provider).render is Provider.render:  # one that renders by itself may have no renderer
        kept = renderings.pop(key, None) or _KeptRendering(provider, options, mark)
        rendered = kept.render(contents)
    if kept is None or rendered is None:
        marked = contents if mark is None else mark_contents(contents, mark)
        return render_messages(marked, provider, ids=options.ids, model=options.model, endpoint=options.endpoint)
    while len(renderings) >= _MOST_KEPT:
        renderings.pop(next(iter(renderings)), None)
    renderings[key] = kept
    return rendered


class _KeptRendering:
    """The rendering of one conversation for one target."""

    def __init__(self, provider: Provider, options: RenderOptions, mark: CacheMark | None) -> None:
        self._provider = provider
        self._options = options
        self._mark = mark
        self._start()

    def _start(self) -> None:
        self._edits = TextBlock.edits
        self._contents: list[Content] = []  # that are rendered for good
        self._blocks: list[object] = []  # their lists of blocks, and copies of these
        self._copies: list[object] = []
        self._check = HistoryCheck()  # of them
        self._changes: list[list[RequestChange]] = [[], [], []]  # of their repair, of media, and of values
        self._renderer: MessageRenderer[Any] = self._provider.create_renderer(self._options)
        self._given: list[Json] = []  # the closed messages, as the last request had them

    def render(self, contents: Sequence[Content]) -> RenderedMessages | None:
        """Return the conversation in the provider's form; None if it has to be rendered from nothing."""
        count = len(self._contents)
        is_same = self._edits == TextBlock.edits and self._blocks == self._copies and len(contents) >= count
        if not is_same or not all(map(is_, self._contents, contents)):
            self._start()
        new = to_contents("contents", contents[len(self._contents) :])
        if self._mark is not None and self._contents and any(content.speaker == "system" for content in new):
            self._start()  # the mark moves to the new system text
            new = to_contents("contents", contents)
        stop = len(new) - 1
        while stop > 0 and not any(isinstance(block, ToolResponseBlock) for block in new[stop - 1].blocks):
            stop -= 1
        marked = new if self._mark is None else mark_contents(new, self._mark)
        first, rest = marked[: max(stop, 0)], marked[max(stop, 0) :]
        if not self._contents and not HistoryCheck().accepts(first, is_end=True):
            first, self._changes[0], is_final = repair_contents(first)
            if not is_final:
                return None
        is_valid = self._check.accepts(first, is_end=True)
        if not is_valid or not replace(self._check, stems=self._check.stems.copy()).accepts(rest, is_end=True):
            return None
        self._renderer.render(self._prepare(first, self._changes), is_end=False)
        kept = new[: max(stop, 0)]
        self._contents += kept
        self._blocks += [content.blocks for content in kept]
        self._copies += [content.blocks.copy() for content in kept]
        changes = [each.copy() for each in self._changes]
        rendered = _copy_renderer(self._renderer).render(self._prepare(rest, changes))
        rendered.model = self._options.model
        rendered.changes[:0] = [change for each in changes for change in each]
        rendered.request_fields = copy_json(rendered.request_fields)
        given = self._given
        if rendered.messages[: len(given)] != given:  # a message is new, or a caller has changed its own
            given = [old if old == new else copy_json(new) for old, new in zip(given, rendered.messages, strict=False)]
        rendered.messages = given + [copy_json(message) for message in rendered.messages[len(given) :]]
        self._given = rendered.messages[: self._renderer.closed]
        return rendered

    def _prepare(self, contents: list[Content], changes: list[list[RequestChange]]) -> list[Content]:
        supported = apply_media_policy(contents, self._provider, "raise", changes[1])
        return prepare_contents(supported, changes[2], has_plans=self._provider.traits.tool_plans)


def _copy_renderer(renderer: MessageRenderer[Any]) -> MessageRenderer[Any]:
    """Return a renderer that goes on from here by itself; the closed messages are shared with it."""
    renderer.close_messages(len(renderer.messages) - 1)
    copied = _copy_state(renderer)
    for number in range(renderer.closed, len(renderer.messages)):
        message = renderer.messages[number]
        copied.messages[number] = {k: v.copy() if type(v) is list else v for k, v in message.items()}
        copied.members[number] = renderer.members[number].copy()
    return copied


def _copy_state(state: AnyState) -> AnyState:
    """Return a copy whose lists, dicts, sets and ids are its own, with the same members."""
    copied = copy(state)
    for name, value in vars(state).items():
        if type(value) in (list, dict, set):
            setattr(copied, name, value.copy())
        elif isinstance(value, (MessageIds, TargetIds)):
            setattr(copied, name, _copy_state(value))
    return copied


#: What is kept of one conversation, by target.
Renderings: TypeAlias = dict[object, _KeptRendering]
