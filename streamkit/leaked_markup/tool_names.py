"""Tool names that contain a model's control tokens: ``tool_search<|channel|>json``.

gpt-oss writes harmony, and a server that does not remove all of it leaves control tokens in the name of a call
(NousResearch/hermes-agent#8993, vllm-project/vllm#32633). No provider allows ``<`` in a name, so the name ends there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec import structs

from streamkit.events import NormalizedToolChunk

__all__ = ["NameCleaner"]


class NameCleaner:
    """Removes control tokens from the names of one choice's calls, also where a name arrives in fragments.

    Args:
        warn: gets each name with its control tokens.
    """

    __slots__ = ("_truncated_names", "_warn")

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._truncated_names: dict[Hashable, str | None] = {}  # call ids by slot, while the name may still grow

    def clean(self, chunk: NormalizedToolChunk) -> NormalizedToolChunk:
        """Return the chunk of a call without the control tokens in its name."""
        sent = chunk.name
        if not sent and not self._truncated_names:
            return chunk
        slot = chunk.key if chunk.key is not None else ("position", chunk.position)
        name = sent
        if sent:
            at = sent.find("<|")
            if at < 0 and sent.endswith("<"):
                at = len(sent) - 1  # the rest of the token is in the next fragment
            if at >= 0:
                self._warn(sent)
                name = sent[:at]
                self._truncated_names[slot] = chunk.id or self._truncated_names.get(slot)
            elif (
                chunk.type == "delta"
                and slot in self._truncated_names
                and (not chunk.id or chunk.id == self._truncated_names[slot])
            ):
                name = None  # the rest of the control tokens
        if chunk.args or chunk.arguments_delta:
            self._truncated_names.pop(slot, None)  # the name is complete
        return chunk if name == sent else structs.replace(chunk, name=name or None)
