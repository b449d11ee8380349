"""The items of a response: what a stream has sent of each, and what the type of an item decides.

Its type decides which id the API accepts, and who runs its tool. This module must not depend on the sink or on how
items are found (``item_index``).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from msgspec import Struct

from streamkit.providers.decoding.decoding import as_text
from streamkit.providers.openai_responses.schema import SERVER_RESULT_ITEMS, SERVER_TOOL_ITEMS, Json, PartKind

__all__ = [
    "ContentPart",
    "OutputItem",
    "RepeatedStart",
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
        is_open: it is in ``open_parts`` of its item.
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
    is_open: bool = False
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
        self.raw: Json = raw
        self.index: Any = index
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
        last_indexes: of those, the index of the last one of each kind.
        open_parts: the parts with text since its last snapshot, whose blocks the next one ends.
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
        is_repeated: it came again, and that was reported.
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
    last_indexes: dict[PartKind, int] = {}
    open_parts: list[ContentPart] = []
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
    is_repeated: bool = False
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
        first = self.part
        return self.last_indexes.get(kind, first.index if first is not None and first.kind == kind else 0)

    def add_part(self, part: ContentPart) -> None:
        """Add a part that began."""
        if self.part is None:
            self.part = part
            return
        if self.more_parts is None:
            self.more_parts = {}
        self.more_parts[part.kind, part.index] = part
        self.last_indexes[part.kind] = part.index

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


# ---------------------------------------------------------------- ids

# ``Invalid 'input[1].id': 'abc'. Expected an ID that begins with 'fc'.`` (nodetool-ai/nodetool#4252,
# openai/codex#33176, mastra-ai/mastra#10815); ``Missing required parameter: 'input[25].id'`` for a search
# (openai/codex#6741). Which types require an id is declared in the SDK's types of input items.
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
