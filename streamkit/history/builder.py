"""The way back, as far as all vendors share it: a provider's own messages become ``Content``.

Each vendor's room (``thread.py``) says what its messages mean; here contents are put together and calls and results get
their canonical ids. An id is made from what the call itself says, never from its place in the thread, so the same call
has the same id when the thread was pruned before it: from the provider's name, the raw id and the tool's name; where
there is no raw id, from the ``turn_key`` (made of the names and arguments of all calls of its message) and the call's
number in the message. One raw id in several turns gives one id several times: ``repair`` tells them apart, and so does
every render.

It must not know any vendor's messages. Nothing here raises for what a message holds.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Literal

from streamkit.errors import UsageError
from streamkit.history.content import Block, Content, OpaqueBlock, TextBlock, ToolCallBlock, ToolResponseBlock
from streamkit.ids import canonicalize_tool_call_id, is_canonical, normalize_to_history_tool_id

__all__ = ["ContentBuilder", "check_messages", "as_list"]


def check_messages(messages: Any) -> list[dict[str, Any]]:
    """The messages, where they are a list of dicts.

    Raises:
        UsageError: they are anything else.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, (str, bytes)):
        raise UsageError(f"a thread is a list of messages, not {type(messages).__name__}")
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            raise UsageError(
                f"messages[{place}] is no dict but {type(message).__name__}; an SDK's object has model_dump() for that"
            )
    return list(messages)


def as_list(value: Any) -> list[Any]:
    """A list as it is, one thing as a list of it, nothing as nothing."""
    return value if isinstance(value, list) else [] if value is None else [value]


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ContentBuilder:
    """Contents as they grow.

    Args:
        provider: whose messages are read; what a block carries from there is good for that provider alone.
        prefixed: its ids are history's under another prefix (``spec/000``), so a full one only changes its prefix.
    """

    def __init__(self, provider: str, *, prefixed: bool = False) -> None:
        self.provider = provider
        self._prefixed = prefixed
        self._contents: list[Content] = []
        self._speaker = ""
        self._blocks: list[Block] = []
        self._metadata: dict[str, Any] = {}
        self._by_raw_id: dict[str, ToolCallBlock] = {}
        self._unanswered: dict[str | None, deque[ToolCallBlock]] = {}  # of the last turn with calls, by tool
        self._answered: set[int] = set()

    def provider_metadata(self, beside: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
        """A block's metadata: whose it is, and what the provider wants back with it; what is None is not there."""
        return {
            **{str(name): value for name, value in beside.items() if value is not None},
            "provider": self.provider,
        }

    # ------------------------------------------------------------ what is said

    @property
    def speaker(self) -> str:
        """Whose content is being put together; ``""`` at the end of one."""
        return self._speaker

    def add_block(self, speaker: str, block: Block, **metadata: Any) -> None:
        """A block; with another speaker than the block before, the first one of a new content."""
        if speaker != self._speaker:
            self.end()
            self._speaker = speaker
        self._blocks.append(block)
        self._metadata |= metadata

    def text(self, speaker: str, text: Any) -> bool:
        """Text, where it is one; an empty one makes no block. Gives whether it was text."""
        if not isinstance(text, str):
            return False
        if text:
            self.add_block(speaker, TextBlock(text=text, metadata=self.provider_metadata() if speaker == "ai" else {}))
        return True

    def opaque(self, speaker: str, raw: Any) -> None:
        """Something of the provider's own, or something unknown, as it came."""
        self.add_block(speaker, OpaqueBlock(raw=raw, metadata=self.provider_metadata()))

    def add_unknown_role(self, message: dict[str, Any]) -> None:
        """A message of a role that the provider does not have: kept whole, under its own name."""
        role = message.get("role")
        self.end()
        self.opaque(role if isinstance(role, str) and role else "unknown", message)
        self.end()

    def end(self) -> None:
        """The content is over; what is put next begins another one."""
        calls = [block for block in self._blocks if isinstance(block, ToolCallBlock)]
        if calls:
            self._settle(calls)
        if self._blocks:
            about = {"provider": self.provider} if self._speaker == "ai" else {}
            self._contents.append(
                Content(speaker=self._speaker, blocks=self._blocks, metadata={**about, **self._metadata})
            )
        self._speaker, self._blocks, self._metadata = "", [], {}

    def build(self) -> list[Content]:
        """The whole conversation."""
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
        beside: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """A call. Arguments are an object or JSON text; of a custom call, text."""
        raw = _id(raw_id)
        name = name if isinstance(name, str) else ""
        about = self.provider_metadata({**beside, "raw_id": raw or None})
        if kind == "custom":
            given: Any = arguments if isinstance(arguments, str) else _written(arguments)
        elif arguments is None or isinstance(arguments, str):
            given = arguments or {}
        elif isinstance(arguments, dict) and all(isinstance(key, str) for key in arguments):
            given = arguments
        else:
            given, about["raw_arguments"] = {}, _written(arguments)
        block = ToolCallBlock(id="", name=name, parameters=given, kind=kind, metadata=about)
        if raw:
            block.id = self._canonical(raw, name)
            self._by_raw_id[raw] = block
        self.add_block("ai", block)

    def result(
        self,
        raw_id: Any,
        value: Any = None,
        *,
        name: Any = None,
        error: str | None = None,
        status: str | None = None,
        beside: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """What came of a call, which is found by its raw id; without one by its tool and place, in the last turn."""
        if self._speaker == "ai":
            self.end()
        raw = _id(raw_id)
        given = name if isinstance(name, str) and name else None
        call = self._by_raw_id.get(raw) if raw else self._next(given)
        if call is not None:
            self._answered.add(id(call))
        block = ToolResponseBlock(
            call_id=call.id if call is not None else self._canonical(raw, given) if raw else "",
            name=given or (call.name or None if call is not None else None),
            result=value,
            status=status or ("error" if error is not None else None),
            error=error,
            metadata=self.provider_metadata({**beside, "raw_id": raw or None}),
        )
        self.add_block("tool", block)

    def _canonical(self, raw: str, name: str | None, turn_key: str = "", number: int = 0) -> str:
        if self._prefixed and raw and is_canonical(swapped := normalize_to_history_tool_id(raw)):
            return swapped
        return canonicalize_tool_call_id(
            provider_name=self.provider, raw_id=raw, tool_name=name, turn_key=turn_key, call_index=number
        )

    def _next(self, name: str | None) -> ToolCallBlock | None:
        waiting = self._unanswered.get(name)
        while waiting:
            call = waiting.popleft()
            if id(call) not in self._answered:
                return call
        return None

    def _settle(self, calls: list[ToolCallBlock]) -> None:
        """The calls of a content: what they say makes the key of the turn, and with it the ids that are missing."""
        said = [
            [call.metadata.get("raw_id"), call.name, call.metadata.get("raw_arguments", call.parameters)]
            for call in calls
        ]
        key = "thread-" + sha256(_written(said).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._metadata.setdefault("turn_key", key)
        self._unanswered = {}
        for number, call in enumerate(calls):
            if not call.id:
                call.id = self._canonical("", call.name, key, number)
            self._unanswered.setdefault(None, deque()).append(call)
            self._unanswered.setdefault(call.name, deque()).append(call)


def _id(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if value.__class__ is int else ""


def _written(value: Any) -> str:
    """A value as JSON text, the same for equal values."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):  # keys of several types, a value that holds itself
        return f"<{type(value).__name__}>"
