"""Results of tools as documents, which Cohere's models cite by their ids.

Source    https://docs.cohere.com/docs/tool-use-citations

History has the text or the JSON of a result. The documents that it was made of are kept beside it, and go back to
Cohere as long as the result is still theirs. This module does not depend on messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamkit.history.tool_results import parse_result

__all__ = ["DOCUMENTS", "documents_of", "read_result", "restore_documents"]

Json = dict[str, Any]

DOCUMENTS = "documents"  #: the name of the parts in the metadata of a result


def read_result(content: Any) -> Any:
    """Return a result: a text, also one of a document of text, or the list of its parts."""
    parts = [_text_of(part) for part in content] if isinstance(content, list) else content
    return parse_result(parts)


def documents_of(content: Any) -> list[Json] | None:
    """Return the parts of a result if one is a document and all are of the API's form; else None."""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        return None
    is_valid = all(_is_document(part) or _is_text(part) for part in content)
    return content if is_valid and any(_is_document(part) for part in content) else None


def restore_documents(result: Any, metadata: Mapping[str, Any]) -> list[Json] | None:
    """Return the documents that a result was made of; None if there are none, or if it was changed since."""
    documents = documents_of(metadata.get(DOCUMENTS))
    return documents if documents is not None and read_result(documents) == result else None


def _is_document(part: Json) -> bool:
    document = part.get("document") if part.get("type") == "document" else None
    return isinstance(document, dict) and isinstance(document.get("data"), (str, dict))


def _is_text(part: Json) -> bool:
    return part.get("type") == "text" and isinstance(part.get("text"), str)


def _text_of(part: Any) -> Any:
    document = part.get("document") if isinstance(part, dict) and part.get("type") == "document" else None
    if isinstance(document, dict) and isinstance(document.get("data"), str) and document.keys() <= {"data", "id"}:
        return {"type": "text", "text": document["data"]}
    return part
