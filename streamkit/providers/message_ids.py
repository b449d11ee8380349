"""The ids of the calls and results in one rendered conversation.

`streamkit.target_ids` determines the form of the ids. This module finds the call of each result if history contains an
id several times. It must not depend on a provider.
"""

from __future__ import annotations

from streamkit.history import ToolCallBlock, ToolResponseBlock
from streamkit.providers.provider import IdPolicy, Traits
from streamkit.target_ids import TargetIds

__all__ = ["MessageIds"]


class MessageIds:
    """The target ids of a conversation: a call and its result have the same id, and no other call has it.

    History may contain one id several times (some models number their calls again in each turn,
    fw-ai/fireconnect#16). Results are then paired with their calls by order.

    Args:
        traits: the target's traits; the ids follow their ``id_rule``.
        policy: ``origin`` gives a call that is sent back to its provider that provider's own id; ``canonical`` derives
            every id from the canonical one. None is the target's default.
    """

    def __init__(self, traits: Traits, policy: IdPolicy | None) -> None:
        self._traits = traits
        self._origin = (policy or traits.default_ids) == "origin"
        self._target_ids = TargetIds(traits.id_rule)
        self._seen: dict[str, int] = {}  # the number of calls with an id
        self._open_calls: dict[str, list[str]] = {}  # by id in history, the target ids of calls without a result
        self._latest: dict[str, str] = {}  # by id in history, the target id of the last call

    def start_round(self) -> None:
        """Discard the calls without a result: later results belong to later calls."""
        self._open_calls = {}

    def call_id(self, block: ToolCallBlock) -> str:
        """Return the target id of a call."""
        occurrence = self._seen[block.id] = self._seen.get(block.id, 0) + 1
        is_own = self._origin and self._traits.accepts_state(block.metadata)
        target_id = self._target_ids.call(
            block.id if occurrence == 1 else f"{block.id}|{occurrence}",
            block.name,
            origin=block.metadata.get("raw_id") if is_own else None,
        )
        self._open_calls.setdefault(block.id, []).append(target_id)
        self._latest[block.id] = target_id
        return target_id

    def result_id(self, block: ToolResponseBlock) -> str:
        """Return the target id of the call that a result belongs to."""
        open_calls = self._open_calls.get(block.call_id)
        if open_calls:
            return open_calls.pop(0)
        return self._latest.get(block.call_id) or self._target_ids.result(block.call_id, block.name or "")
