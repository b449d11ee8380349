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

from typing import Any, Final

from streamkit.events.turn_events import Citation

__all__ = ["citation_events"]

_DEEPEST: Final = 8
#: The names of each field of ``Citation``, the first one that has a value of its type counts.
_NAMES: Final[dict[str, tuple[type, tuple[str, ...]]]] = {
    "url": (str, ("url", "uri", "retrievedUrl")),
    "title": (str, ("title", "document_title", "filename")),
    "cited_text": (str, ("cited_text", "text", "content")),
    "start": (int, ("start_index", "startIndex", "start_char_index", "start")),
    "end": (int, ("end_index", "endIndex", "end_char_index", "end")),
}
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
    "documentChar",
)


def citation_events(data: Any, block: int | None = None, choice: int = 0) -> list[Citation]:
    """Return an event for each source of a citation, at least one; the first one has the data.

    Args:
        data: the citation in the form of the provider that sent it: an address, a source, a list or object of sources.
        block: the number of the block that it supports.
        choice: the number of the choice.
    """
    sources: list[dict[str, Any]] = []
    _collect(data, {}, sources, 0)
    first, *others = sources or [{}]
    return [
        Citation(**first, data=data, block=block, choice=choice),
        *[Citation(**other, block=block, choice=choice) for other in others],
    ]


def _collect(data: Any, outer: dict[str, Any], sources: list[dict[str, Any]], depth: int) -> None:
    """Add the fields of each source to the list."""
    if isinstance(data, list) and depth <= _DEEPEST:
        for item in data:
            _collect(item, outer, sources, depth + 1)
    if isinstance(data, str) and data.startswith(("http://", "https://")):
        sources.append({**outer, "url": data})
    if not isinstance(data, dict) or depth > _DEEPEST:
        return
    if isinstance(chunks := data.get("groundingChunks"), list):
        _collect_grounding(chunks, data.get("groundingSupports"), sources)
        return
    fields = {**_read_fields(data), **outer}
    inner = [data[name] for name in _INNER if isinstance(data.get(name), (dict, list)) and data[name]]
    for value in inner:
        _collect(value, fields, sources, depth + 1)
    if fields and not inner:
        sources.append(fields)


def _read_fields(data: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field, (kind, names) in _NAMES.items():
        value = next((data[name] for name in names if data.get(name).__class__ is kind), None)
        if value is not None and value != "":
            fields[field] = value
    source, texts = data.get("source"), data.get("sourceContent")
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        fields.setdefault("url", source)
    if isinstance(texts, list):
        parts = [part["text"] for part in texts if isinstance(part, dict) and isinstance(part.get("text"), str)]
        fields["cited_text"] = "".join(parts)
    return fields


def _collect_grounding(chunks: list[Any], supports: Any, sources: list[dict[str, Any]]) -> None:
    """Add the sources of each segment of the text, then the sources that support no segment."""
    unused = dict(enumerate(chunks))
    for support in supports if isinstance(supports, list) else ():
        segment = support.get("segment") if isinstance(support, dict) else None
        fields = _read_fields(segment) if isinstance(segment, dict) else {}
        indexes = support.get("groundingChunkIndices") if isinstance(support, dict) else None
        for index in indexes if isinstance(indexes, list) else ():
            if index.__class__ is int and 0 <= index < len(chunks):
                unused.pop(index, None)
                _collect(chunks[index], fields, sources, 1)
    for chunk in unused.values():
        _collect(chunk, {}, sources, 1)
