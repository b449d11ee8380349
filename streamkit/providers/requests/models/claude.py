"""Facts about Anthropic's models, which Anthropic's API and Converse share.

Thinking has two forms. Models up to 4.5 take a budget: ``{"type": "enabled", "budget_tokens": n}``. Later ones decide
for themselves: ``{"type": "adaptive"}`` with an effort; from 4.7 on they refuse budgets and sampling settings
("thinking.type.enabled" "is not supported for this model", OpenHands/software-agent-sdk#3427; "`temperature` is
deprecated for this model", UKGovernmentBEIS/inspect_ai#3721).

From Opus 4.1 to 4.6, models take a temperature or a `top_p`, also with their default values: "`temperature` and `top_p`
cannot both be specified for this model" (lobehub/lobehub#8683; Sonnet, Haiku and Opus 4.5:
https://platform.claude.com/docs/en/about-claude/models/migrating-to-claude-4, SalesforceAIResearch/MCP-Universe#49;
4.6: OpenHands/OpenHands#12846, Vali-98/ChatterUI#564).

Efforts and budgets are translated as in `contract.traits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from streamkit.providers.contract.traits import ModelFacts, budget_for, effort_for
from streamkit.providers.requests.body_fields import LEAST_BUDGET, SettingsWriter
from streamkit.values.request_changes import LeftOut, Translated

__all__ = [
    "CLAUDE_MODELS",
    "Thinking",
    "omit_sampling",
    "read_thinking",
    "refuses_thinking",
    "take_thinking",
]

_OVERVIEW = "https://platform.claude.com/docs/en/about-claude/models/overview"
_THINKING = "https://platform.claude.com/docs/en/build-with-claude/extended-thinking"
_MIGRATION = "https://platform.claude.com/docs/en/about-claude/models/migration-guide"
_ADAPTIVE = "https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking"
#: Facts by a pattern of the model's name without what platforms add to it; the first that matches applies.
CLAUDE_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"claude-(?:2|instant|3-(?:opus|sonnet|haiku))": ModelFacts(
        source=_OVERVIEW, max_output_tokens=4096, reasoning="none"
    ),
    r"claude-3-5": ModelFacts(source=_OVERVIEW, max_output_tokens=8192, reasoning="none"),
    r"claude-opus-4-1(?!\d)": ModelFacts(
        source=_THINKING, max_output_tokens=32_000, reasoning="budget", temperature_excludes_top_p=True
    ),
    r"claude-opus-4(?:-0)?(?!-\d(?!\d))": ModelFacts(source=_THINKING, max_output_tokens=32_000, reasoning="budget"),
    r"claude-(?:opus|sonnet|haiku)-4-5": ModelFacts(
        source=_THINKING, max_output_tokens=64_000, reasoning="budget", temperature_excludes_top_p=True
    ),
    r"claude-3-7|claude-(?:opus|sonnet|haiku)-4(?!-[6-9])": ModelFacts(
        source=_THINKING, max_output_tokens=64_000, reasoning="budget"
    ),
    r"claude-\w+-4-6": ModelFacts(
        source=_ADAPTIVE,
        max_output_tokens=64_000,
        efforts=("low", "medium", "high", "max"),
        temperature_excludes_top_p=True,
    ),
    r"claude-": ModelFacts(
        source=_MIGRATION,
        max_output_tokens=128_000,
        refused=frozenset({"temperature", "top_p", "top_k"}),
        reasoning="adaptive",
        efforts=("low", "medium", "high", "xhigh", "max"),
        reasoning_is_optional=False,
    ),
}
#: "top_p between 1 and 0.95" (https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking, on compatibility)
_LEAST_TOP_P = 0.95
_SUMMARY_OF_DISPLAY = {"summarized": "auto", "omitted": "none", "updates": "updates"}
_DISPLAY_OF_SUMMARY = {summary: display for display, summary in _SUMMARY_OF_DISPLAY.items()}


@dataclass(frozen=True)
class Thinking:
    """How a request asks for thinking."""

    field: dict[str, Any] | None = None  #: the value of ``thinking``; None leaves it out
    effort: str | None = None  #: the effort of the response; None leaves it out

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

    A budget is a part of the limit, the most tokens of the response, if that is known.
    """
    if not writer.sets_reasoning:
        return NO_THINKING
    mode, effort, budget = writer.take("reasoning"), writer.take("reasoning_effort"), writer.take("reasoning_budget")
    summary, form = writer.take("reasoning_summary"), writer.facts.reasoning
    is_wanted = mode == "auto" or budget is not None
    if form == "none":
        if is_wanted or effort:
            writer.report(LeftOut("reasoning was left out: the model has none"))
        return NO_THINKING
    if mode == "off":
        is_sent = writer.facts.reasoning_is_optional
        return Thinking({"type": "disabled"} if is_sent else None, _effort(writer, effort))
    field: dict[str, Any] | None = None
    if form == "budget" and (is_wanted or effort):
        is_exact = budget is not None and not writer.is_foreign
        field = _enabled(writer, budget or budget_for(effort), limit, is_exact=is_exact)
        if effort and field and budget is None:
            sentence = f"the reasoning effort {effort!r} became a budget of {field['budget_tokens']} tokens"
            writer.report(Translated(sentence))
        if budget is None or writer.is_foreign:
            effort = None  # some models have both, and a client that sends both knows its model
    elif budget is not None and form != "adaptive":
        field = _enabled(writer, budget, limit, is_exact=not writer.is_foreign)
    elif is_wanted:
        field = {"type": "adaptive"}
        if budget is not None:
            effort = effort or effort_for(budget)
            writer.report(Translated(f"the reasoning budget of {budget} tokens became the effort {effort!r}"))
    if field is not None and summary is not None:
        field["display"] = _DISPLAY_OF_SUMMARY.get(summary, "summarized")
    elif summary is not None:
        writer.report(LeftOut("reasoning is not displayed: it was not requested"))
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


def _enabled(writer: SettingsWriter, budget: int, limit: int | None, *, is_exact: bool) -> dict[str, Any] | None:
    if budget < LEAST_BUDGET:
        writer.report(Translated(f"the reasoning budget was changed from {budget} to {LEAST_BUDGET} tokens, the least"))
        budget = LEAST_BUDGET
    fitting = writer.fitting_budget(budget, limit, is_exact=is_exact)
    return None if fitting is None else {"type": "enabled", "budget_tokens": fitting}
