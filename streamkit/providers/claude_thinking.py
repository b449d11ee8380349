"""The request for the thinking of Anthropic's models, which Anthropic's API and Converse share.

`claude_models` has the forms. Efforts and budgets are translated as in `model_facts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamkit.providers.model_facts import budget_for, effort_for
from streamkit.providers.settings import SettingsWriter

__all__ = ["Thinking", "omit_sampling", "read_thinking", "refuses_thinking", "take_thinking"]

#: https://platform.claude.com/docs/en/api/messages: "Must be >=1024 and less than `max_tokens`."
_LEAST_BUDGET = 1024
#: "top_p between 1 and 0.95" (https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking, on compatibility)
_LEAST_TOP_P = 0.95
_SUMMARY_OF_DISPLAY = {"summarized": "auto", "omitted": "none", "updates": "updates"}
_DISPLAY_OF_SUMMARY = {summary: display for display, summary in _SUMMARY_OF_DISPLAY.items()}


@dataclass(frozen=True)
class Thinking:
    """How a request asks for thinking.

    Attributes:
        field: the value of ``thinking``; None leaves it out.
        effort: the effort of the response; None leaves it out.
    """

    field: dict[str, Any] | None = None
    effort: str | None = None

    @property
    def is_on(self) -> bool:
        """Whether the model is asked to think."""
        return self.field is not None and self.field["type"] != "disabled"


#: A request that does not mention thinking.
NO_THINKING = Thinking()


def read_thinking(field: Any) -> dict[str, Any] | None:
    """Return the settings of a value of ``thinking``; None if it has another form."""
    if not isinstance(field, dict) or field.keys() - {"type", "budget_tokens", "display"}:
        return None
    kind, budget, display = field.get("type"), field.get("budget_tokens"), field.get("display")
    values: dict[str, Any] = {}
    if display is not None:
        if not isinstance(display, str) or display not in _SUMMARY_OF_DISPLAY:
            return None
        values["reasoning_summary"] = _SUMMARY_OF_DISPLAY[display]
    if kind == "enabled" and isinstance(budget, int) and not isinstance(budget, bool):
        return {**values, "reasoning_budget": budget}
    if kind in ("adaptive", "disabled") and budget is None:
        return {**values, "reasoning": "auto" if kind == "adaptive" else "off"}
    return None


def take_thinking(writer: SettingsWriter, limit: int | None) -> Thinking:
    """Take the settings of reasoning and return the thinking that the model accepts.

    Args:
        writer: the settings.
        limit: the most tokens of the response, of which a budget is a part; None if it is unknown.
    """
    if not writer.sets_reasoning:
        return NO_THINKING
    mode, effort, budget = writer.take("reasoning"), writer.take("reasoning_effort"), writer.take("reasoning_budget")
    summary, form = writer.take("reasoning_summary"), writer.facts.reasoning
    is_wanted = mode == "auto" or budget is not None
    if form == "none":
        if is_wanted or effort:
            writer.report("reasoning was left out: the model has none")
        return NO_THINKING
    if mode == "off":
        is_sent = writer.facts.reasoning_is_optional
        return Thinking({"type": "disabled"} if is_sent else None, _effort(writer, effort))
    field: dict[str, Any] | None = None
    if form == "budget" and (is_wanted or effort):
        field = _enabled(writer, budget or budget_for(effort), limit)
        if effort and field and budget is None:
            writer.report(f"the reasoning effort {effort!r} became a budget of {field['budget_tokens']} tokens")
        if budget is None or writer.is_foreign:
            effort = None  # some models have both, and a client that sends both knows its model
    elif budget is not None and form != "adaptive":
        field = _enabled(writer, budget, limit)
    elif is_wanted:
        field = {"type": "adaptive"}
        if budget is not None:
            effort = effort or effort_for(budget)
            writer.report(f"the reasoning budget of {budget} tokens became the effort {effort!r}")
    if field is not None and summary is not None:
        field["display"] = _DISPLAY_OF_SUMMARY.get(summary, "summarized")
    return Thinking(field, _effort(writer, effort))


def refuses_thinking(thinking: Thinking, *, is_call_forced: bool, has_lost_thinking: bool) -> str:
    """Return why a request with this thinking would be refused; ``""`` if it would not.

    https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking: no forced tool use; and with a budget, "a
    final `assistant` message must start with a thinking block", which a client may have lost. "Adaptive thinking:
    previous assistant turns don't need to start with thinking blocks"
    (https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking). Converse passes on the model's refusal
    (langchain-ai/langchain-aws#925, langchain-ai/langchain-aws#844).

    Args:
        thinking: the thinking.
        is_call_forced: the tool choice forces a call.
        has_lost_thinking: the last response has calls and does not start with thinking.
    """
    if not thinking.is_on or thinking.field is None:
        return ""
    if is_call_forced:
        return "Anthropic refuses it together with a tool choice that forces a call"
    if thinking.field["type"] == "enabled" and has_lost_thinking:
        return "the last response has calls, and its own reasoning is missing"
    return ""


def omit_sampling(writer: SettingsWriter) -> None:
    """Leave out the sampling settings that are refused with thinking: "`temperature` may only be set to 1"."""
    if writer.get("temperature") != 1:
        writer.omit("temperature", "Anthropic accepts only 1 with thinking")
    writer.omit("top_k", "Anthropic does not accept it with thinking")
    if (writer.get("top_p") or 1) < _LEAST_TOP_P:
        writer.omit("top_p", f"with thinking Anthropic accepts only {_LEAST_TOP_P} to 1")


def _effort(writer: SettingsWriter, effort: str | None) -> str | None:
    return None if effort is None else writer.accepted_effort(effort)


def _enabled(writer: SettingsWriter, budget: int, limit: int | None) -> dict[str, Any] | None:
    fitting = budget if limit is None else min(budget, limit - 1)
    if fitting < _LEAST_BUDGET:
        fitting = _LEAST_BUDGET if limit is None or limit > _LEAST_BUDGET else 0
    if not fitting:
        writer.report(f"reasoning was left out: it needs {_LEAST_BUDGET} tokens, and the response has {limit}")
        return None
    if fitting != budget:
        writer.report(f"the reasoning budget was changed from {budget} to {fitting} tokens")
    return {"type": "enabled", "budget_tokens": fitting}
