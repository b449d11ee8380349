"""The ids of one thread on its way to a target: a call and its result share one, and no other call has it.

What an id must look like is ``streamkit.ids``' business; here is only which call a result of history belongs to where
an id stands there several times. This file knows no vendor.
"""

from __future__ import annotations

from streamkit.history import ToolCallBlock, ToolResponseBlock
from streamkit.providers.provider import IdPolicy, Traits
from streamkit.target_ids import TargetIds

__all__ = ["MessageIds"]


class MessageIds:
    """Ids that a call and its result share and no other call has.

    History may hold one id several times (Kimi counts ids anew in each turn, fw-ai/fireconnect#16): results are then
    paired with their calls by order.

    Args:
        traits: the target's; its ``id_rule`` is the rule that the ids follow.
        policy: ``origin`` for taking them back; anything else makes every id from the canonical one.
    """

    def __init__(self, traits: Traits, policy: IdPolicy | None) -> None:
        self._traits = traits
        self._origin = (policy or traits.default_ids) == "origin"
        self._target = TargetIds(traits.id_rule)
        self._seen: dict[str, int] = {}  # how many calls have an id
        self._unanswered: dict[str, list[str]] = {}
        self._latest: dict[str, str] = {}

    def start_round(self) -> None:
        """Forget the calls without a result: the results that follow belong to the calls that follow."""
        self._unanswered = {}

    def call_id(self, block: ToolCallBlock) -> str:
        """The target's id of a call."""
        times = self._seen[block.id] = self._seen.get(block.id, 0) + 1
        is_own = self._origin and self._traits.accepts_state(block.metadata)
        target_id = self._target.call(
            block.id if times == 1 else f"{block.id}|{times}",
            block.name,
            origin=block.metadata.get("raw_id") if is_own else None,
        )
        self._unanswered.setdefault(block.id, []).append(target_id)
        self._latest[block.id] = target_id
        return target_id

    def result_id(self, block: ToolResponseBlock) -> str:
        """The id of the call that a result answers."""
        waiting = self._unanswered.get(block.call_id)
        if waiting:
            return waiting.pop(0)
        return self._latest.get(block.call_id) or self._target.result(block.call_id, block.name or "")
