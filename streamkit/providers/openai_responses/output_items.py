"""The items of one response and the parts of their texts, as far as the stream has sent them.

This module must not depend on the sink or on how items are found (``item_index``).

Ids of the API's items: the prefix that each type requires, and the types that are refused without an id.

``Invalid 'input[1].id': 'abc'. Expected an ID that begins with 'fc'.`` (nodetool-ai/nodetool#4252, openai/codex#33176,
mastra-ai/mastra#10815); ``Missing required parameter: 'input[25].id'`` for a search (openai/codex#6741). Which types
require an id is declared in the SDK's types of input items. This module depends on nothing but the items.

Reader of the items of server tools: their arguments and results, and the complete item for replay.

Deltas are passed on as they come, and are not collected: the event that ends an item repeats all of their data.
This module must not depend on how items are found or on the client's calls.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from msgspec import Struct

from streamkit.providers.contract.sink import ChoiceSink
from streamkit.providers.decoding.decoding import as_text, read_json
from streamkit.providers.openai_responses.schema import SERVER_RESULT_ITEMS, SERVER_TOOL_ITEMS, Json, PartKind

__all__ = [
    "ContentPart",
    "OutputItem",
    "RepeatedStart",
    "ServerToolReader",
    "as_position",
    "has_required_id",
    "is_reference",
    "item_type",
    "runs_on_server",
    "without_foreign_id",
]


_MANY_PARTS = 32  # so many parts of a text are joined


class ContentPart(Struct, eq=False):
    """A part of an item's text.

    Attributes:
        item: the item that contains the part.
        kind: the kind of its text.
        index: its position in the item's content (or summary), as far as the wire reports it.
        key: the sink's key of its block.
        last_index: the index in the last delta, for the parser's fast path.
        streamed: the deltas that were passed on. They are the sink's own strings, kept because the final snapshot may
            contain more than the deltas did, and joined once, when it comes.
        joined: the first parts in ``streamed``, each of which was joined from many.
        initial_text: the text in the event that started the part. It counts only if neither a delta nor a snapshot
            follows.
        is_started: the sink has a block for it.
        is_warned: a snapshot differed, and a warning reported it.
        citation_count: how many of its annotations were passed on.
    """

    item: OutputItem
    kind: PartKind
    index: int
    key: int
    last_index: Any = None
    streamed: list[str] = []
    joined: int = 0
    initial_text: str = ""
    is_started: bool = False
    is_warned: bool = False
    citation_count: int = 0

    def join_parts(self) -> int:
        """Join the parts of the text that came since the last call, if they are many; return their number."""
        parts = self.streamed
        count = len(parts) - self.joined
        if count < _MANY_PARTS:
            return 0
        parts[self.joined :] = ["".join(parts[self.joined :])]
        self.joined += 1
        return count

    @property
    def text(self) -> str:
        """The text so far."""
        parts = self.streamed
        if len(parts) > 1:
            parts[:] = ["".join(parts)]
        self.joined = len(parts)
        return parts[0] if parts else ""


class RepeatedStart:
    """A second start of a complete item, without content: what follows may repeat the item, or be another one.

    Deltas are compared with the texts of the item, and are passed on once one differs.

    Attributes:
        raw: the item of the second start.
        index: its position.
        sizes: for each text of the item, how many characters were repeated.
    """

    __slots__ = ("index", "raw", "sizes")

    def __init__(self, raw: Json, index: Any) -> None:
        self.raw = raw
        self.index = index
        self.sizes: dict[Hashable, int] = {}

    def matches(self, key: Hashable, text: str, delta: str) -> bool:
        """Return True if a delta continues the repetition of a text."""
        size = self.sizes.get(key, 0)
        if not text.startswith(delta, size):
            return False
        self.sizes[key] = size + len(delta)
        return True


class OutputItem(Struct, eq=False):
    """An item that has started.

    Attributes:
        key: the sink's key of its (first) block.
        type: the item's type on the wire.
        id: its id, as the wire first sent it.
        call_id: of a call, the id that its result must name.
        index: its position in the output, if the wire reports it.
        part: the first part of its text.
        more_parts: the others, by kind and index.
        sent_id: of a message, the id to send back, which is that of its snapshot.
        phase: of a message, its phase.
        agent: of a message, the agent of the provider that wrote it.
        raw: of a type that is not read, the item as it started; of reasoning, its first snapshot, if that has no
            encrypted content.
        name: of a call, the name of its tool; of a server tool, the tool's name.
        server_id: of a server tool, the id of its call in the sink.
        initial_arguments: of a call, the arguments in the event that started it; of a patch, its JSON before the diff.
        arguments: of a call, the arguments in its last snapshot.
        has_arguments: of a call, that arguments came later; of a server tool, that its arguments were emitted.
        is_done: a snapshot of the complete item came.
        repeated_start: it started again after that.
        unknown_indexes: the positions of its content that were reported to be unknown.
    """

    key: int
    type: str
    id: str | None
    call_id: str | None
    index: int | None
    part: ContentPart | None = None
    more_parts: dict[tuple[PartKind, int], ContentPart] | None = None
    sent_id: str | None = None
    phase: Any = None
    agent: Any = None
    raw: Json | None = None
    name: str | None = None
    server_id: str | None = None
    initial_arguments: str = ""
    arguments: str = ""
    has_arguments: bool = False
    is_done: bool = False
    repeated_start: RepeatedStart | None = None
    unknown_indexes: set[int] | None = None

    @property
    def parts(self) -> list[ContentPart]:
        """The parts of its text, in the order in which they came."""
        if self.part is None:
            return []
        return [self.part] if self.more_parts is None else [self.part, *self.more_parts.values()]

    def find_part(self, kind: PartKind, index: int) -> ContentPart | None:
        """Return the part of a kind and index, or None."""
        part = self.part
        if part is None or (part.index == index and part.kind == kind):
            return part
        return self.more_parts.get((kind, index)) if self.more_parts is not None else None

    def last_index(self, kind: PartKind) -> int:
        """Return the index of the last part of a kind; 0 if there is none."""
        more = self.more_parts
        if more is not None:
            for part in reversed(more.values()):
                if part.kind == kind:
                    return part.index
        return self.part.index if self.part is not None and self.part.kind == kind else 0

    def add_part(self, part: ContentPart) -> None:
        """Add a part that began."""
        if self.part is None:
            self.part = part
            return
        if self.more_parts is None:
            self.more_parts = {}
        self.more_parts[part.kind, part.index] = part

    @property
    def text_metadata(self) -> Json:
        """The metadata of a message's text blocks: its id, phase and agent must be sent back with it."""
        metadata: Json = {} if self.sent_id is None else {"item_id": self.sent_id}
        if self.phase is not None:
            metadata["phase"] = self.phase
        if self.agent is not None:
            metadata["agent"] = self.agent
        return metadata

    def mark_unknown(self, index: int) -> bool:
        """Mark a position of the content as reported to be unknown; return False if it was already."""
        known = self.unknown_indexes
        if known is None:
            self.unknown_indexes = {index}
            return True
        count = len(known)
        known.add(index)
        return len(known) > count


def as_position(value: Any) -> int | None:
    """Return a position as an integer; None if it is none. Servers may write it as text or as a float."""
    if value.__class__ is int:
        return int(value)
    if value.__class__ is float and value.is_integer():
        return int(value)
    return int(value) if value.__class__ is str and value.isascii() and value.isdigit() and len(value) < 10 else None


def item_type(raw: Json) -> str:
    """Return the type of an item. A message may leave it out."""
    kind = raw.get("type")
    if kind.__class__ is str and kind:
        return kind
    return as_text(kind) or ("message" if isinstance(raw.get("role"), str) else "")


def is_reference(raw: Json) -> bool:
    """Return True if an item names another one that the provider has. Its type may be left out or null."""
    kind = raw.get("type")
    return kind == "item_reference" or (
        kind is None and raw.keys() <= {"id", "type"} and isinstance(raw.get("id"), str)
    )


_PREFIXES = {
    "apply_patch_call": "apc",
    "code_interpreter_call": "ci",
    "computer_call": "cu",
    "custom_tool_call": "ctc",
    "file_search_call": "fs",
    "function_call": "fc",
    "image_generation_call": "ig",
    "mcp_approval_request": "mcpr",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "message": "msg",
    "reasoning": "rs",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "web_search_call": "ws",
}
_WITH_REQUIRED_ID = frozenset(
    {
        "code_interpreter_call",
        "computer_call",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "web_search_call",
    }
)


def has_required_id(item: Json) -> bool:
    """Return True if the API refuses an item of this type without an id."""
    return item_type(item) in _WITH_REQUIRED_ID


def without_foreign_id(item: Json) -> Json:
    """Return an item without its id if that has not the prefix of its type; else the item unchanged."""
    prefix, item_id = _PREFIXES.get(item_type(item)), item.get("id")
    if "id" not in item or (isinstance(item_id, str) and item_id.startswith(prefix or "")):
        return item
    return {name: value for name, value in item.items() if name != "id"}


#: Statuses of an item that the server still works on. Such an item cannot be sent back.
_RUNNING_STATUSES = frozenset({"in_progress", "searching", "interpreting", "generating", "calling", "queued"})
_MEDIA_TYPES = {"svg": "image/svg+xml", "jpg": "image/jpeg"}


def runs_on_server(raw: Json) -> bool:
    """Return True if an item belongs to a tool that the provider runs."""
    kind = item_type(raw)
    if kind == "shell_call":
        # The same item asks the client to run its own shell; only the environment distinguishes the two
        # (https://platform.openai.com/docs/guides/tools-shell).
        environment = raw.get("environment")
        return isinstance(environment, dict) and environment.get("type") not in (None, "local")
    if kind == "tool_search_call":
        return raw.get("execution") != "client"
    return kind in SERVER_TOOL_ITEMS or kind in SERVER_RESULT_ITEMS


class ServerToolReader:
    """A reader that reports the calls of server tools to a sink."""

    __slots__ = ("_choice", "_latest_ids")

    def __init__(self, choice: ChoiceSink) -> None:
        self._choice = choice
        self._latest_ids: dict[str, str] = {}  # of the last call of each tool

    def start(self, item: OutputItem, raw: Json) -> None:
        """Report that a tool starts. An item that is a result of another one starts nothing."""
        if item.type in SERVER_RESULT_ITEMS:
            return
        item.name = SERVER_TOOL_ITEMS[item.type][0] or as_text(raw.get("name")) or item.type
        # A result names the call_id if there is one, else nothing.
        item.server_id = item.call_id or item.id or f"{item.type}_{item.key}"
        self._latest_ids[item.name] = item.server_id
        self._choice.server_tool(item.server_id, item.name, "started")

    def emit_arguments(self, item: OutputItem, arguments: Any) -> None:
        """Report the arguments of a tool, once."""
        if item.has_arguments or arguments is None or arguments == "":
            return
        item.has_arguments = True
        if item.type == "mcp_call" and isinstance(arguments, str):
            arguments = _parse_arguments(arguments)
        self._choice.server_tool(item.server_id, item.name or "", "arguments", arguments)

    def complete(self, item: OutputItem, raw: Json) -> None:
        """Report the arguments, the result and the generated image of a complete item."""
        if item.server_id is None:
            self.start(item, raw)
        _, arguments_field, result_field = SERVER_TOOL_ITEMS[item.type]
        self.emit_arguments(item, raw.get(arguments_field))
        status = as_text(raw.get("status"))
        if status in _RUNNING_STATUSES:
            return
        result = raw.get(result_field) if result_field else None
        if result is None and raw.get("error") is not None:
            result = {"error": raw["error"]}
        if result is None:
            result = {"status": status} if status is not None else {}
        self._choice.server_tool(item.server_id, item.name or "", "result", result, raw=raw)
        image = raw.get("result") if item.type == "image_generation_call" else None
        if isinstance(image, str) and image:
            self._choice.file(_media_type(raw), data=image)
            self._choice.add_metadata({"item_id": item.server_id})

    def emit_result(self, item: OutputItem, raw: Json) -> None:
        """Report an item that is the result of another one."""
        name, field = SERVER_RESULT_ITEMS[item.type]
        call_id = as_text(raw.get("call_id")) or self._latest_ids.get(name) or item.id
        self._choice.server_tool(call_id, name, "result", raw.get(field), raw=raw)

    def emit_partial_output(self, item: OutputItem | None, raw: Json) -> None:
        """Report the next output of a command. The complete output replaces it."""
        fields = {name: raw[name] for name in ("delta", "command_index") if name in raw}
        call_id = item.call_id if item is not None else None
        self._choice.server_tool(call_id or self._latest_ids.get("shell"), "shell", "result", fields)

    def emit_partial_image(self, item: OutputItem | None, raw: Json) -> None:
        """Report an unfinished image. The complete one replaces it."""
        fields = {
            name: value for name, value in raw.items() if name.startswith("partial_image") or name == "output_format"
        }
        server_id = item.server_id if item is not None else as_text(raw.get("item_id"))
        self._choice.server_tool(server_id, "image_generation", "result", fields)


def _media_type(raw: Json) -> str:
    output_format = as_text(raw.get("output_format")) or "png"
    return _MEDIA_TYPES.get(output_format) or f"image/{output_format}"


def _parse_arguments(text: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return text
