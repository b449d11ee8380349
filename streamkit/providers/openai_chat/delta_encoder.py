"""The blocks of an answer as the deltas that say them, for ``emit``. How a stream begins and ends is said there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from streamkit.history import (
    Block,
    Content,
    FileBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
)
from streamkit.providers.decoding import compact_json
from streamkit.providers.openai_chat.dialects import ChatDialect
from streamkit.target_ids import TargetIds

__all__ = ["ChunkDelta", "DeltaEncoder"]


@dataclass(frozen=True, slots=True)
class ChunkDelta:
    """One chunk's news: its delta, and fields of its choice and of the chunk itself."""

    delta: dict[str, Any]
    choice: dict[str, Any] = field(default_factory=dict)
    top: dict[str, Any] = field(default_factory=dict)


class DeltaEncoder:
    """One answer being said: the calls' numbers and ids."""

    def __init__(self, facts: ChatDialect, delta_size: int) -> None:
        self._facts = facts
        self._piece = delta_size
        self._ids = TargetIds(facts.id_rule)
        self._calls = 0

    def pieces(self, content: Content) -> Iterator[ChunkDelta]:
        """All that the answer says, in order."""
        for block in content.blocks:
            yield from self._block(block, ours=block.metadata.get("provider") == self._facts.name)

    def _block(self, block: Block, *, ours: bool) -> Iterator[ChunkDelta]:
        if isinstance(block, TextBlock):
            audio = block.metadata.get("audio") if ours else None
            yield from self._spoken(block, audio) if isinstance(audio, dict) else self._text(block, ours=ours)
            yield from self._citations(block.metadata.get("citations") if ours else None)
        elif isinstance(block, ReasoningBlock):
            yield from self._reasoning(block, ours=ours)
        elif isinstance(block, ToolCallBlock):
            yield from self._call(block, ours=ours)
        elif isinstance(block, FileBlock):
            yield from self._file(block)
        elif isinstance(block, ServerToolBlock) and ours:
            yield from (ChunkDelta({"executed_tools": [raw]}) for raw in block.raw if isinstance(raw, dict))
        elif isinstance(block, OpaqueBlock) and ours and isinstance(block.raw, dict):
            yield ChunkDelta({"content": [block.raw]})

    def _cut(self, text: str) -> Iterator[str]:
        for start in range(0, len(text), self._piece):
            yield text[start : start + self._piece]

    def _text(self, block: TextBlock, *, ours: bool) -> Iterator[ChunkDelta]:
        refused = block.metadata.get("refusal") is True
        logprobs = block.metadata.get("logprobs") if ours else None
        choice = {"logprobs": {"refusal" if refused else "content": logprobs}} if logprobs else {}
        for text in self._cut(block.text):
            yield ChunkDelta({"refusal" if refused else "content": text}, choice)
            choice = {}

    def _spoken(self, block: TextBlock, audio: dict[str, Any]) -> Iterator[ChunkDelta]:
        """A spoken answer's transcript; its sound is a block of its own."""
        begun = {"id": audio["id"]} if "id" in audio else {}
        if begun:
            yield ChunkDelta({"audio": {**begun, "transcript": ""}})
        for text in self._cut(block.text):
            yield ChunkDelta({"audio": {"transcript": text}})
        if "expires_at" in audio:
            yield ChunkDelta({"audio": {"expires_at": audio["expires_at"]}})

    def _citations(self, cited: Any) -> Iterator[ChunkDelta]:
        if not isinstance(cited, list) or not cited:
            return
        if self._facts.thinking_parts:  # Mistral's references are parts
            yield ChunkDelta({"content": cited})
        elif not self._facts.source_lists:
            yield ChunkDelta({"annotations": cited})
        else:
            addresses = [source for source in cited if isinstance(source, str)]
            results = [source for source in cited if not isinstance(source, str)]
            lists = (("search_results", results), ("citations", addresses))
            yield ChunkDelta({"content": ""}, top={name: sources for name, sources in lists if sources})

    def _reasoning(self, block: ReasoningBlock, *, ours: bool) -> Iterator[ChunkDelta]:
        name = self._facts.reasoning_field
        if self._facts.thinking_parts:
            for text in self._cut(block.text):
                yield ChunkDelta({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]})
            if ours and block.signature is not None:
                yield ChunkDelta({"content": [{"type": "thinking", "thinking": [], "signature": block.signature}]})
            return
        details = block.metadata.get("reasoning_details") if ours else None
        if not isinstance(details, list) and self._facts.reasoning_details:
            kind = "summary" if block.kind == "summary" else "text"
            details = [{"type": f"reasoning.{kind}", kind: text, "index": 0} for text in self._cut(block.text)]
        if isinstance(details, list):
            # As OpenRouter sends them: each detail is said twice, typed and as text, and counts once.
            for detail in details:
                again = detail.get("text") or detail.get("summary") if isinstance(detail, dict) else None
                said = {name: again} if name and again else {}
                yield ChunkDelta({**said, "reasoning_details": [detail]})
        elif name:
            for text in self._cut(block.text):
                yield ChunkDelta({name: text})

    def _call(self, block: ToolCallBlock, *, ours: bool) -> Iterator[ChunkDelta]:
        raw_id = block.metadata.get("raw_id") if ours else None
        index, self._calls = self._calls, self._calls + 1
        made = self._ids.call(block.id, block.name, origin=raw_id)
        opener: dict[str, Any] = {"index": index, "id": raw_id if isinstance(raw_id, str) else made}
        raw = block.metadata.get("raw_arguments")
        given = raw if isinstance(raw, str) else block.parameters
        text = given if isinstance(given, str) else compact_json(given)
        kind, where = ("custom", "input") if block.kind == "custom" else ("function", "arguments")
        whole = self._facts.one_chunk_calls
        opener |= {"type": kind, kind: {"name": block.name, where: text if whole else ""}}
        if ours and "extra_content" in block.metadata:
            opener["extra_content"] = block.metadata["extra_content"]
        yield ChunkDelta({"tool_calls": [opener]})
        for part in () if whole else self._cut(text):
            yield ChunkDelta({"tool_calls": [{"index": index, kind: {where: part}}]})

    def _file(self, block: FileBlock) -> Iterator[ChunkDelta]:
        """A sound in pieces, an image as OpenRouter sends it; there is no word for other files."""
        kind = block.media_type or ""
        url = block.url or block.data
        if isinstance(block.metadata.get("raw"), dict):
            yield ChunkDelta({"images": [block.metadata["raw"]]})
        elif kind.startswith("audio/") and block.data:
            size = max(4, self._piece // 4 * 4)  # each piece is base64 of its own
            for start in range(0, len(block.data), size):
                yield ChunkDelta({"audio": {"data": block.data[start : start + size]}})
        elif url and kind.startswith("image/"):
            if not url.startswith(("data:", "http:", "https:")):
                url = f"data:{kind};base64,{url}"
            yield ChunkDelta({"images": [{"type": "image_url", "image_url": {"url": url}}]})
