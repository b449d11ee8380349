"""The sources that a citation names, in the documented forms of all wires.

A form is an object whose fields have one of a few names, or an object around such objects. An outer field counts before
an inner one: the text of a document within a citation is not the text that is cited.

- Messages and Converse: https://docs.anthropic.com/en/docs/build-with-claude/citations,
  https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CitationsDelta.html
- annotations: https://platform.openai.com/docs/api-reference/responses-streaming/response/output_text/annotation/added,
  https://platform.openai.com/docs/api-reference/chat/object, https://openrouter.ai/docs/features/web-search; of a data
  source https://learn.microsoft.com/azure/ai-foundry/openai/references/on-your-data
- grounding: https://ai.google.dev/api/generate-content#GroundingMetadata, #CitationMetadata, #UrlContextMetadata
- documents: https://docs.cohere.com/v2/docs/rag-citations; search results and references:
  https://docs.perplexity.ai/api-reference/chat-completions-post, https://docs.mistral.ai/capabilities/citations

The module is loaded with the first citation. It must not depend on a wire's package.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any, Final

from streamkit.events.turn_events import Citation

__all__ = ["citation_events"]

_DEEPEST: Final = 8
#: The names of each field of ``Citation``, the first one that has a text counts.
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "url": ("url", "uri", "retrievedUrl"),
    "title": ("title", "document_title", "filename"),
    "cited_text": ("cited_text", "text", "content"),
}
#: The ends of the range in the response's text, in characters. The names that Anthropic has, and those within a
#: ``location`` of Converse, are of places in the source.
_RANGE: Final = (("start_index", "start"), ("end_index", "end"))
#: The fields whose objects may have that range.
_WITH_RANGE: Final = frozenset({"url_citation", "file_citation", "citationSources", "citations"})
#: The types of Cohere's citations of another text than the response's (https://docs.cohere.com/v2/reference/chat).
_OF_OTHER_TEXTS: Final = ("PLAN", "THINKING_CONTENT")
_LONGEST_CONVERTED: Final = 100_000  #: characters of a text in which bytes are counted again for each event of the wire
_STEP: Final = 256  #: characters of a text whose bytes are counted together
#: The fields that lead to the sources, or to more fields of one.
_INNER: Final = (
    "url_citation",
    "file_citation",
    "web",
    "retrievedContext",
    "maps",
    "citationSources",
    "citations",
    "urlMetadata",
    "sources",
    "document",
    "location",
)
_INNER_NAMES: Final = frozenset(_INNER)


def citation_events(data: Any, block: int | None = None, choice: int = 0, *, text: str | None = None) -> list[Citation]:
    """Return an event for each source of a citation, at least one; the first one has the data.

    Args:
        data: the citation in the form of the provider that sent it: an address, a source, a list or object of sources.
        block: the number of the block that it supports.
        choice: the number of the choice.
        text: the text of that block so far, in which the provider counts. None: it counts in another one, so the events
            have no range.
    """
    sources: list[dict[str, Any]] = []
    _collect(data, {}, sources, 0, None if text is None else _CitedText(text))
    first, *others = sources or [{}]
    return [
        Citation(**first, data=data, block=block, choice=choice),
        *[Citation(**other, block=block, choice=choice) for other in others],
    ]


class _CitedText:
    """A text in which ranges are given in characters or in bytes. Its bytes are counted once for all ranges."""

    __slots__ = ("_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts: list[int] | None = None  # the bytes before each step of characters, and their total

    def character(self, offset: int) -> int | None:
        """Return the number of the character at an offset in bytes; None if none begins there."""
        text, starts = self.text, self._starts
        if text.isascii():
            return offset if offset <= len(text) else None
        if starts is None:
            parts = (text[at : at + _STEP] for at in range(0, len(text), _STEP))
            starts = self._starts = [0, *accumulate(len(part.encode("utf-8", "surrogatepass")) for part in parts)]
        number = bisect_right(starts, offset) - 1
        if offset > starts[-1]:
            return None
        before = text[number * _STEP : (number + 1) * _STEP].encode("utf-8", "surrogatepass")[: offset - starts[number]]
        try:
            return min(number * _STEP, len(text)) + len(before.decode())
        except UnicodeDecodeError:  # it is within a character
            return None


def _collect(
    data: Any, outer: dict[str, Any], sources: list[dict[str, Any]], depth: int, text: _CitedText | None
) -> None:
    """Add the fields of each source to the list."""
    if isinstance(data, list) and depth <= _DEEPEST:
        for item in data:
            _collect(item, outer, sources, depth + 1, text)
    if isinstance(data, str) and data.startswith(("http://", "https://")):
        sources.append({**outer, "url": data})
    if not isinstance(data, dict) or depth > _DEEPEST:
        return
    if isinstance(chunks := data.get("groundingChunks"), list):
        _collect_grounding(chunks, data.get("groundingSupports"), sources, text)
        return
    fields = {**_read_fields(data), **_read_range(data, text), **outer}
    inner: list[str] = []
    if not _INNER_NAMES.isdisjoint(data):
        inner = [name for name in _INNER if isinstance(data.get(name), (dict, list)) and data[name]]
    for name in inner:
        _collect(data[name], fields, sources, depth + 1, text if name in _WITH_RANGE else None)
    if fields and not inner:
        sources.append(fields)


def _read_fields(data: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field, names in _NAMES.items():
        for name in names:
            value = data.get(name)
            if value.__class__ is str:
                if value:
                    fields[field] = value
                break
    source, texts = data.get("source"), data.get("sourceContent")
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        fields.setdefault("url", source)
    if isinstance(texts, list):
        parts = [part["text"] for part in texts if isinstance(part, dict) and isinstance(part.get("text"), str)]
        fields["cited_text"] = "".join(parts)
    return fields


def _read_range(data: dict[str, Any], text: _CitedText | None) -> dict[str, int]:
    """Return ``start`` and ``end`` in the text, in characters, or nothing.

    Google counts bytes of UTF-8, and leaves out a zero: https://ai.google.dev/api/generate-content#Segment. Its segment
    has the text as well, which differs if the bytes are counted in another part of the response.
    """
    if text is None or data.get("type") in _OF_OTHER_TEXTS:
        return {}
    start, end = (next((data[name] for name in names if data.get(name).__class__ is int), -1) for names in _RANGE)
    if 0 <= start <= end:
        return {"start": start, "end": end}
    first, last = data.get("startIndex", 0), data.get("endIndex")
    if not (first.__class__ is last.__class__ is int and 0 <= first <= last) or len(text.text) > _LONGEST_CONVERTED:
        return {}
    start, end, cited = text.character(first), text.character(last), data.get("text", "")
    if start is None or end is None or data.get("partIndex"):
        return {}
    if "text" in data and (
        cited.__class__ is not str or not text.text.startswith(cited, start) or len(cited) != end - start
    ):
        return {}
    return {"start": start, "end": end}


def _collect_grounding(
    chunks: list[Any], supports: Any, sources: list[dict[str, Any]], text: _CitedText | None
) -> None:
    """Add the sources of each segment of the text, then the sources that support no segment."""
    unused = dict(enumerate(chunks))
    for support in supports if isinstance(supports, list) else ():
        segment = support.get("segment") if isinstance(support, dict) else None
        fields = {**_read_fields(segment), **_read_range(segment, text)} if isinstance(segment, dict) else {}
        indexes = support.get("groundingChunkIndices") if isinstance(support, dict) else None
        for index in indexes if isinstance(indexes, list) else ():
            if index.__class__ is int and 0 <= index < len(chunks):
                unused.pop(index, None)
                _collect(chunks[index], fields, sources, 1, None)
    for chunk in unused.values():
        _collect(chunk, {}, sources, 1, None)
