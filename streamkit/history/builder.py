"""The builder of history from a provider's messages, shared by the importers of all providers.

Each provider's package (``importer``) defines the meaning of its messages; here contents are assembled, and calls and
results get their canonical ids. An id is derived from the call itself, never from its position in the messages, so the
same call has the same id when earlier messages were pruned: from the provider's name, the raw id and the tool's name;
without a raw id, from the ``turn_key`` (derived from the names and arguments of all calls of its message) and the
call's number in the message. One raw id in several turns gives the same id several times: ``repair`` makes them unique,
and so does every render.

It must not depend on any provider's messages. Nothing here raises for what a message contains.

The most frequent blocks are made in few steps, of values that are JSON data of the declared types: nothing is checked
or converted, and the objects keep the lists and dicts that they are given. A reader of messages makes one for each part
of a conversation; ``create_stored`` takes longer, and the constructor several times as long. The fields are in their
declared order, in which they are serialized, too.

A part that has no block is kept as it is, with words for providers that have no field for it. The parts of all wires
use few names for what a model reads: a title, a context, texts, the id of a stored file. So a new type of part has
words as well. Data, such as base64, is none.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from streamkit.history.content import (
    CACHE_BREAKPOINT,
    UNREADABLE_FILE,
    UNREADABLE_SUMMARY,
    WORDS,
    Block,
    CacheMark,
    Content,
    OpaqueBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
    parse_arguments,
    store,
)
from streamkit.history.stored_data import to_stored_data
from streamkit.ids import canonicalize_tool_call_id, is_canonical, normalize_to_history_tool_id
from streamkit.values.request_changes import ChangeList, RequestChange, Translated, add_changes, without_fields

__all__ = [
    "ContentBuilder",
    "ReadingChanges",
    "as_list",
    "call_block",
    "read_breakpoint",
    "result_block",
    "text_block",
]

#: The names of what a model reads in a part, in the order in which it is looked for.
_NAMES: Final = (
    *("title", "name", "filename", "source", "context", "text", "transcript", "content", "data"),
    *("file_id", "file", "video_url", "url", "document", "searchResult", "guardContent"),
    *("image", "video", "audio", "bytes", "s3Location", "uri"),
)
_DATA: Final = frozenset({"data", "bytes", "uri"})
_DEEPEST: Final = 8
#: Of OpenAI's Responses (encrypted) and of Anthropic's Messages (a text).
_COMPACTIONS: Final = frozenset({"compaction", "compaction_summary", "context_compaction"})
_TEXT_FIELDS: Final = frozenset({"text", "metadata"})
_CALL_FIELDS: Final = frozenset({"id", "name", "parameters", "kind", "metadata"})
_RESULT_FIELDS: Final = frozenset({"call_id", "name", "result", "status", "error", "metadata"})
_CONTENT_FIELDS: Final = frozenset({"speaker", "blocks", "metadata"})


def text_block(text: str, metadata: dict[str, Any]) -> TextBlock:
    """Return a text."""
    return store(TextBlock, {"type": "text", "text": text, "metadata": metadata}, _TEXT_FIELDS)


def call_block(
    id: str,
    name: str,
    parameters: dict[str, Any] | str,
    kind: Literal["function", "custom"],
    metadata: dict[str, Any],
) -> ToolCallBlock:
    """Return a call."""
    fields = {
        "type": "tool_call",
        "id": id,
        "name": name,
        "parameters": parameters,
        "kind": kind,
        "metadata": metadata,
    }
    return store(ToolCallBlock, fields, _CALL_FIELDS)


def result_block(
    call_id: str, name: str | None, result: Any, status: str | None, error: str | None, metadata: dict[str, Any]
) -> ToolResponseBlock:
    """Return the result of a call."""
    fields = {
        "type": "tool_response",
        "call_id": call_id,
        "name": name,
        "result": result,
        "status": status,
        "error": error,
        "metadata": metadata,
    }
    return store(ToolResponseBlock, fields, _RESULT_FIELDS)


_TEXT = frozenset({str})


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged, one value as a list of it, None as an empty list."""
    return value if isinstance(value, list) else [] if value is None else [value]


class ReadingChanges(ChangeList):
    """The changes of reading messages, with the values of the fields that were left out.

    Attributes:
        left_out: the values by the name of the field, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left_out: dict[str, list[Any]] = {}


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, check_circular=False)
#: The same in a tenth of the time, except for very large and very small floats.
_SORTED_JSON = msgspec.json.Encoder(order="sorted")
_FRACTION, _EXPONENT = re.compile(rb"\.\d"), re.compile(rb"e-?\d")
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class ContentBuilder:
    """Builds contents from the blocks, calls and results of messages.

    Args:
        provider: the name of the provider whose messages are read; what its blocks carry is valid for it alone.
        changes: receives a sentence for each value that is kept as an opaque block, and for each field left out.
        prefixed: whether its ids are those of history with another prefix, so that a complete one only
            changes its prefix.
    """

    def __init__(self, provider: str, changes: list[str] | None = None, *, prefixed: bool = False) -> None:
        self.provider = provider
        self._stored_provider = to_stored_data(provider)
        self._changes = changes if changes is not None else []
        self._reported: set[str] = set()
        self._prefixed = prefixed
        self._contents: list[Content] = []
        self._speaker = ""
        self._blocks: list[Block] = []
        self._metadata: dict[str, Any] = {}
        self._calls: list[ToolCallBlock] = []  # of the current content
        self._last_calls: list[ToolCallBlock] = []  # of the last content with calls
        self._open_calls: dict[str | None, deque[ToolCallBlock]] | None = None  # these by tool, once it is asked for
        self._last_calls_have_ids: bool | None = None  # one of them has a raw id; None until it is asked for
        self._by_raw_id: dict[str, ToolCallBlock] = {}
        self._by_result_id: dict[str, ToolCallBlock] = {}  # calls of the last content that only their results identify
        self._has_result: set[int] = set()  # the identities of the calls

    def provider_metadata(self, extras: Mapping[str, Any] = _EMPTY) -> dict[str, Any]:
        """Return a block's metadata: the provider, and the fields that it needs with the block, if not None."""
        if not extras:
            return {"provider": self.provider}
        return {
            **{str(name): value for name, value in extras.items() if value is not None},
            "provider": self.provider,
        }

    def own_metadata(self, extras: Mapping[str, Any] = _EMPTY) -> dict[str, Any]:
        """Return the metadata of `provider_metadata` as JSON data."""
        if not extras:
            return {"provider": self._stored_provider}
        metadata: dict[str, Any] = to_stored_data(self.provider_metadata(extras))
        return metadata

    # ------------------------------------------------------------ blocks

    @property
    def speaker(self) -> str:
        """The speaker of the current content; ``""`` between two contents."""
        return self._speaker

    def add_block(self, speaker: str, block: Block) -> None:
        """Add a block; a speaker other than that of the previous block starts a new content."""
        if speaker != self._speaker:
            self.end()
            self._speaker = speaker
        self._blocks.append(block)

    def describe(self, **metadata: Any) -> None:
        """Add metadata to the current content, if it has a block."""
        if self._blocks:
            self._metadata |= to_stored_data(metadata)

    def text(
        self, speaker: str, text: Any, cache: CacheMark | None = None, *, extras: Mapping[str, Any] = _EMPTY
    ) -> bool:
        """Add text if the value is text, with fields that the provider needs with the block (``extras``).

        Empty text adds no block. Return True if the value is text.
        """
        if not isinstance(text, str):
            return False
        if text:
            marks: dict[str, Any] = {} if cache is None else {"cache": cache}
            if speaker == "ai" or extras:
                metadata = self.own_metadata({**marks, **extras})
            else:
                metadata = to_stored_data(marks) if marks else marks
            self.add_block(speaker, text_block(to_stored_data(text), metadata))
        return True

    def opaque(self, speaker: str, raw: Any, cache: CacheMark | None = None) -> None:
        """Add a provider's own or an unknown value unchanged, and report it; *cache* is a mark that is not in it."""
        if not isinstance(self._changes, ReadingChanges):  # else rendering reports what happens to it
            self.report(Translated(f"kept {_describe(raw)} as an opaque block: history has no block for it"))
        metadata = self.provider_metadata({"cache": cache, WORDS: _words_of(raw, speaker, self.provider)})
        self.add_block(speaker, OpaqueBlock(raw=raw, metadata=metadata))

    def report(self, change: RequestChange) -> None:
        """Record a change, unless it was recorded already."""
        if change not in self._reported:
            self._reported.add(change)
            add_changes(self._changes, [change])

    def report_unread(self, value: Mapping[Any, Any], known: Collection[str], label: str) -> None:
        """Report the fields of a message or part that history has no place for; empty ones are none."""
        for name, item in value.items():
            if name not in known and item is not None and item != [] and item != {} and item != "":
                self.report(without_fields(f"left out the field {str(name)[:64]!r} of {label}", [str(name)]))
                if isinstance(self._changes, ReadingChanges):
                    self._changes.left_out.setdefault(str(name), []).append(to_stored_data(item))

    def add_unknown_role(self, message: dict[str, Any]) -> None:
        """Add a message of a role that the provider does not have, unchanged, under the role's name."""
        role = message.get("role")
        self.end()
        self.opaque(to_stored_data(role) if isinstance(role, str) and role else "unknown", message)
        self.end()

    def end(self) -> None:
        """End the current content."""
        if not self._blocks:
            return
        metadata = self._metadata
        if self._speaker == "ai":
            metadata = {"provider": self.provider, **metadata}
            if self._calls:
                metadata["turn_key"] = self._assign_ids(self._calls)
                self._last_calls, self._open_calls, self._calls = self._calls, None, []
                self._last_calls_have_ids, self._by_result_id = None, {}
        fields = {"speaker": self._speaker, "blocks": self._blocks, "metadata": metadata}
        self._contents.append(store(Content, fields, _CONTENT_FIELDS))
        self._speaker, self._blocks, self._metadata = "", [], {}

    def build(self) -> list[Content]:
        """End the current content and return all contents."""
        self.end()
        return self._contents

    # ------------------------------------------------------------ calls and results

    def call(
        self,
        name: Any,
        arguments: Any,
        *,
        raw_id: Any = None,
        kind: Literal["function", "custom"] = "function",
        extras: Mapping[str, Any] = _EMPTY,
    ) -> ToolCallBlock:
        """Add a call, and return it. Its arguments are an object or JSON text, those of a custom call are text."""
        raw = _to_id(raw_id)
        name = name if isinstance(name, str) else ""
        metadata = self._call_metadata(raw, extras)
        if kind == "custom":
            parameters: Any = to_stored_data(arguments if isinstance(arguments, str) else _to_json(arguments))
        elif arguments is None:
            parameters = {}
        elif isinstance(arguments, str):
            parameters = to_stored_data(parse_arguments(arguments))
            if parameters is None:
                parameters, metadata = {}, {"raw_arguments": to_stored_data(arguments), **metadata}
        elif isinstance(arguments, dict) and _TEXT.issuperset(map(type, arguments)):
            parameters = to_stored_data(dict(arguments))
        else:
            parameters, metadata["raw_arguments"] = {}, _to_json(arguments)
        canonical = self._canonical_id(raw, name) if raw else ""
        block = call_block(canonical, to_stored_data(name), parameters, kind, metadata)
        if raw:
            self._by_raw_id[raw] = block
        self.add_block("ai", block)
        self._calls.append(block)
        return block

    def result(
        self,
        raw_id: Any,
        value: Any = None,
        *,
        name: Any = None,
        error: str | None = None,
        status: str | None = None,
        extras: Mapping[str, Any] = _EMPTY,
    ) -> None:
        """Add the result of a call.

        The call is found by its raw id. If the result or the call has none, it is found by its tool and its position
        in the last turn.
        """
        if self._speaker == "ai":
            self.end()
        raw = _to_id(raw_id)
        tool_name = name if isinstance(name, str) and name else None
        call = self._by_raw_id.get(raw) or self._by_result_id.get(raw) if raw else self._next_open_call(tool_name)
        if call is None and raw:
            # LiteLLM's client of Ollama sends the ids of results, and calls without the ids that these name.
            call = self._next_open_call(tool_name, has_id=False)
            if call is not None:
                self._by_result_id[raw] = call
        if call is not None:
            self._has_result.add(id(call))
        if call is not None:
            call_id, stored_name = call.id, call.name or None
        else:
            call_id, stored_name = self._canonical_id(raw, tool_name) if raw else "", None
        block = result_block(
            call_id,
            to_stored_data(tool_name) if tool_name else stored_name,
            to_stored_data(value),
            status or ("error" if error is not None else None),
            error if error is None else to_stored_data(error),
            self._call_metadata(raw, extras),
        )
        self.add_block("tool", block)

    def _call_metadata(self, raw: str, extras: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata of a call or a result."""
        if extras or not raw:
            return self.own_metadata({**extras, "raw_id": raw or None})
        return {"raw_id": to_stored_data(raw), "provider": self._stored_provider}

    def _canonical_id(self, raw: str, name: str | None, turn_key: str = "", number: int = 0) -> str:
        if self._prefixed and raw and is_canonical(with_prefix := normalize_to_history_tool_id(raw)):
            return with_prefix
        return canonicalize_tool_call_id(
            provider_name=self.provider, raw_id=raw, tool_name=name, turn_key=turn_key, call_index=number
        )

    def _next_open_call(self, name: str | None, *, has_id: bool = True) -> ToolCallBlock | None:
        """Return the first call of the last turn without a result; ``has_id``: it may have a raw id."""
        if self._open_calls is None:
            self._open_calls = {}
            for call in self._last_calls:
                self._open_calls.setdefault(None, deque()).append(call)
                self._open_calls.setdefault(call.name, deque()).append(call)
        if not has_id:
            if self._last_calls_have_ids is None:
                self._last_calls_have_ids = any(call.metadata.get("raw_id") for call in self._last_calls)
            if self._last_calls_have_ids:
                return None
        waiting = self._open_calls.get(name)
        while waiting:
            call = waiting.popleft()
            if id(call) not in self._has_result:
                return call
        return None

    def _assign_ids(self, calls: list[ToolCallBlock]) -> str:
        """Return the ``turn_key`` of a content from its calls, and set with it the ids of calls without a raw id."""
        identity = [
            [call.metadata.get("raw_id"), call.name, call.metadata.get("raw_arguments", call.parameters)]
            for call in calls
        ]
        data = _SORTED_JSON.encode(identity)
        if _FRACTION.search(data) or _EXPONENT.search(data):  # perhaps a float, which has two spellings
            data = _JSON.encode(identity).encode()
        key = "thread-" + sha256(data).hexdigest()[:16]
        for number, call in enumerate(calls):
            if not call.id:
                call.id = self._canonical_id("", call.name, key, number)
        return key


def read_breakpoint(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return OpenAI's explicit cache mark of a part as metadata; empty if it has none."""
    value = part.get(CACHE_BREAKPOINT)
    return {CACHE_BREAKPOINT: value} if isinstance(value, dict) else {}


def _describe(raw: Any) -> str:
    if not isinstance(raw, dict):
        return f"a value of the type {type(raw).__name__}"
    kind, role = raw.get("type"), raw.get("role")
    if isinstance(kind, str):
        return f"a part of the type {kind[:64]!r}"
    if isinstance(role, str):
        return f"a message of the role {role[:64]!r}"
    return f"an object with the fields {', '.join(str(name)[:32] for name in list(raw)[:5]) or '(none)'}"


def _to_id(value: Any) -> str:
    if value.__class__ is int:
        return str(value) if -(2**63) <= value < 2**64 else ""
    return value if isinstance(value, str) else ""


def _to_json(value: Any) -> str:
    """Return a value as JSON text, the same for equal values."""
    return _JSON.encode(to_stored_data(value))


def _words_of(part: Any, speaker: str, provider: str) -> str | None:
    """Return the text that replaces a part at another provider; None if the part is left out there.

    A part of the model says nothing to another model, except the summary of what was before it.
    """
    kind = part.get("type") if isinstance(part, dict) else None
    is_summary = isinstance(kind, str) and kind in _COMPACTIONS
    if speaker != "human" and not is_summary:
        return None
    words = "\n".join(_word_lines(part, "", 0))
    if is_summary and not words:
        return f"[{UNREADABLE_SUMMARY} that only {provider} can read.]"
    return words or None


def _word_lines(value: Any, name: str, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if name == "file_id":
            yield f"[a stored file with the id {value}, {UNREADABLE_FILE}]"
        elif name in _DATA or value.startswith("data:"):
            yield f"[a file, {UNREADABLE_FILE}]"
        elif value.strip():
            yield value
    elif isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            yield from _word_lines(item, name, depth + 1)
    elif isinstance(value, dict) and depth < _DEEPEST:
        is_text = value.get("type") == "text"
        for inner in _NAMES:
            if inner in value:
                yield from _word_lines(value[inner], "text" if inner == "data" and is_text else inner, depth + 1)
