"""What was rendered of a conversation, kept while it grows: a round renders only what is new.

A conversation that begins with the same contents as before is rendered from its first new content on, and the messages
before it are those of the last request. Any other one is rendered from nothing: after an edit, if a hook replaced or
removed contents, if what is new needs a repair, for another target. Both give the same messages.

- Contents are values. What is replaced, added or removed in the conversation, and in the ``blocks`` of a content, and
  every field that is assigned, is noticed. A change inside of ``metadata``, ``parameters`` or a result is not: make a
  new block for it (docs/rules.md, "Rounds").
- The last content is never kept: the next one may merge with it, and the mark for a provider's cache is on it.
- A request's messages are the caller's, who may change them: what is kept is compared with them, and copied again.
- A rendering is in the context of one conversation, and is taken out of it while it is used. Another thread, or another
  conversation that began with the same context, renders from nothing in the meantime.

This module must not depend on a provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any, TypeAlias

from msgspec.structs import replace

from streamkit.history.content import CacheMark, Content, TextBlock, to_contents
from streamkit.history.input_checks import prepare_contents
from streamkit.history.repair import HistoryCheck, repair
from streamkit.providers.contract.rendered import RenderOptions
from streamkit.providers.provider import Provider, RenderedMessages
from streamkit.providers.rendering.conversion import render_messages
from streamkit.providers.rendering.media import apply_media_policy
from streamkit.providers.rendering.message_renderer import Json
from streamkit.providers.requests.request import mark_contents

__all__ = ["Renderings", "render_longer"]

_MOST_KEPT = 4  #: targets of one conversation, such as a provider and its fallback


def render_longer(
    renderings: Renderings,
    contents: Sequence[Content],
    provider: Provider,
    options: RenderOptions,
    mark: CacheMark | None,
) -> RenderedMessages:
    """Return a conversation in the provider's form as ``render_messages`` does, and keep what was rendered.

    Args:
        renderings: what was kept of the conversation.
        contents: the conversation.
        provider: the target.
        options: of the rendering, without ids that are in use.
        mark: the mark that ``mark_contents`` adds; None adds none.
    """
    key = (provider, options, None if mark is None else mark.get("ttl", ""))
    kept = renderings.pop(key, None) or _KeptRendering(provider, options, mark)
    rendered = kept.render(contents) if type(provider).render is Provider.render else None
    if rendered is None:
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
        self._check = HistoryCheck()
        self._repairs: list[str] = []  # the changes of the repair of the first contents
        self._changes: tuple[list[str], list[str]] = ([], [])  # of media, and of values
        self._renderer = self._provider.create_renderer(self._options)
        self._given: list[Json] = []  # the closed messages, as the last request had them

    def render(self, contents: Sequence[Content]) -> RenderedMessages | None:
        """Return the conversation in the provider's form; None if it has to be rendered from nothing."""
        count = len(self._contents)
        is_same = self._edits == TextBlock.edits and self._blocks == self._copies and len(contents) >= count
        if not (is_same and all(map(is_, self._contents, contents))):
            self._start()
            count = 0
        new = to_contents("contents", contents[count:])
        if self._mark is not None and count and any(content.speaker == "system" for content in new):
            self._start()  # the mark moves to the new system text
            new = to_contents("contents", contents)
        if not self._contents and not HistoryCheck().read(new, is_end=True):
            stop = max(len(new) - 1, 0)
            while stop and new[stop].speaker == "tool":
                stop -= 1
            repaired = repair(new[:stop])
            is_final = repaired.is_final and self._renderer.count_final(repaired.contents) == len(repaired.contents)
            if self._mark is not None or not is_final:
                return None
            self._repairs = repaired.changes
            self._check.read(repaired.contents)
            self._keep(new[:stop], repaired.contents)
            new = new[stop:]
        marked = new if self._mark is None else mark_contents(new, self._mark)
        stop = self._renderer.count_final(new[:-1])
        is_valid = self._check.read(new[:stop])
        check = replace(self._check, stems=self._check.stems.copy())
        if not is_valid or not check.read(new[stop:], is_end=True):
            return None
        self._keep(new[:stop], marked[:stop])
        changes = self._changes[0].copy(), self._changes[1].copy()
        rendered = self._renderer.fork().render(self._prepare(marked[stop:], changes))
        rendered.model = self._options.model
        rendered.changes[:0] = [*self._repairs, *changes[0], *changes[1]]
        rendered.request_fields = _copy(rendered.request_fields)
        rendered.messages = self._give(rendered.messages)
        return rendered

    def _keep(self, contents: list[Content], rendered: list[Content]) -> None:
        """Render contents for good, in the form that they have after repair and marks."""
        self._renderer.extend(self._prepare(rendered, self._changes))
        self._contents += contents
        self._blocks += [content.blocks for content in contents]
        self._copies += [content.blocks.copy() for content in contents]

    def _prepare(self, contents: Sequence[Content], changes: tuple[list[str], list[str]]) -> list[Content]:
        supported = apply_media_policy(contents, self._provider, "raise", changes[0])
        return prepare_contents(supported, changes[1], has_plans=self._provider.traits.tool_plans)

    def _give(self, messages: list[Json]) -> list[Json]:
        """Return copies of messages, those of the last request if they are as they were."""
        given = self._given
        if messages[: len(given)] != given:
            given = [old if old == new else _copy(new) for old, new in zip(given, messages, strict=False)]
        given += map(_copy, messages[len(given) :])
        self._given = given[: self._renderer.closed]
        return given


def _copy(value: Any) -> Any:
    """Return a copy of data with dicts and lists of its own."""
    if type(value) is dict:
        return {name: _copy(item) if type(item) in (dict, list) else item for name, item in value.items()}
    return [_copy(item) for item in value] if type(value) is list else value


#: What is kept of one conversation, by target.
Renderings: TypeAlias = dict[object, _KeptRendering]
