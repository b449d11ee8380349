"""Tool names with a model's control tokens in them: ``tool_search<|channel|>json``.

gpt-oss writes harmony, and a server that does not take all of it away leaves it in the name of a call
(NousResearch/hermes-agent#8993, vllm-project/vllm#32633). No provider allows ``<`` in a name, so the name ends there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec import structs

from streamkit.events import NormalizedToolChunk

__all__ = ["NameCleaner"]


class NameCleaner:
    """Cuts control tokens off the names of one answer's calls, also where a name comes in fragments."""

    __slots__ = ("_growing", "_warn")

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn  # takes a name with what is cut off it
        self._growing: dict[Hashable, str | None] = {}  # where a name was cut that may still grow: the call's id

    def mend(self, chunk: NormalizedToolChunk) -> NormalizedToolChunk:
        """The same piece of a call, with the name as it was meant."""
        sent = chunk.name
        if not sent and not self._growing:
            return chunk
        slot = chunk.key if chunk.key is not None else ("position", chunk.position)
        name = sent
        if sent:
            at = sent.find("<|")
            if at < 0 and sent.endswith("<"):
                at = len(sent) - 1  # the rest of the token comes with the next fragment
            if at >= 0:
                self._warn(sent)
                name = sent[:at]
                self._growing[slot] = chunk.id or self._growing.get(slot)
            elif chunk.type == "delta" and slot in self._growing and (not chunk.id or chunk.id == self._growing[slot]):
                name = None  # the rest of what was cut off
        if chunk.args or chunk.arguments_delta:
            self._growing.pop(slot, None)  # the name is whole
        return chunk if name == sent else structs.replace(chunk, name=name or None)
