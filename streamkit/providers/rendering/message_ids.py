"""The ids of the calls and results in one rendered conversation.

`streamkit.ids` determines the form of the ids. This module finds the call of each result if history contains an
id several times. It must not depend on a provider.
"""

from __future__ import annotations

from typing import Any

from streamkit.history import ToolCallBlock, ToolResponseBlock
from streamkit.ids import DEFAULT_ID_RULE, TargetIds
from streamkit.providers.contract.origin import RenderOptions
from streamkit.providers.provider import Traits

__all__ = ["MessageIds"]


class MessageIds:
    """The target ids of a conversation: a call and its result have the same id, and no other call has it.

    History may contain one id several times (some models number their calls again in each turn,
    fw-ai/fireconnect#16). Results are then paired with their calls by order.

    Args:
        traits: the target's traits; the ids follow its rule for the requested model.
        options: the id policy, the requested model, and the ids that are in use.
    """

    def __init__(self, traits: Traits, options: RenderOptions) -> None:
        self._traits = traits
        self._options = options
        self._origin = options.ids != "canonical"
        self._target_ids = TargetIds(traits.id_rule_for(options.model), options.used_ids)
        self._seen: dict[str, int] = {}  # the number of calls with an id
        self._open_calls: dict[str, list[str]] = {}  # by id in history, the target ids of calls without a result
        self._latest: dict[str, str] = {}  # by id in history, the target id of the last call

    def start_round(self) -> None:
        """Discard the calls without a result: later results belong to later calls."""
        self._open_calls = {}

    def call_id(self, block: ToolCallBlock) -> str:
        """Return the target id of a call."""
        occurrence = self._seen[block.id] = self._seen.get(block.id, 0) + 1
        target_id = self._target_ids.call(
            block.id if occurrence == 1 else f"{block.id}|{occurrence}", block.name, origin=self._raw_id(block)
        )
        self._open_calls.setdefault(block.id, []).append(target_id)
        self._latest[block.id] = target_id
        return target_id

    def result_id(self, block: ToolResponseBlock) -> str:
        """Return the target id of the call that a result belongs to.

        A result whose call is not in the conversation (its server stores it) has the id that the server gave the call.
        """
        open_calls = self._open_calls.get(block.call_id)
        if open_calls:
            return open_calls.pop(0)
        latest = self._latest.get(block.call_id)
        return latest or self._target_ids.result(block.call_id, block.name or "", origin=self._raw_id(block))

    def _raw_id(self, block: ToolCallBlock | ToolResponseBlock) -> Any:
        """Return the raw id of a block that goes back to its provider.

        The provider decides, not the model: a conversation keeps its ids when the model changes. Only an id of unusual
        form goes back to its own model and endpoint alone, because gateways put opaque state into ids, which other
        models refuse (BerriAI/litellm#18160).
        """
        metadata = block.metadata
        if not self._origin or not self._traits.is_from_provider(metadata):
            return None
        raw_id = metadata.get("raw_id")
        if isinstance(raw_id, str) and not DEFAULT_ID_RULE.accepts(raw_id):
            options = self._options
            return raw_id if self._traits.accepts_state(metadata, options.model, options.endpoint) else None
        return raw_id
