"""The declared facts of a provider, and what follows from them alone.

A provider's ``traits.py`` declares one `Traits` object; a fact about a provider is in it or nowhere. This module must
not depend on any provider, nor on history.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from streamkit.calls import ALL_MARKUP_FAMILIES, MarkupFamily, StreamError
from streamkit.events import ReasoningKind
from streamkit.ids import tool_id_strategy
from streamkit.message_format import POSSIBLE, RateMessage, Rating
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.error_rules import ErrorRules
from streamkit.providers.model_facts import UNKNOWN_MODEL, ModelFacts
from streamkit.providers.origin import is_same_endpoint, is_same_model
from streamkit.providers.output_form import OutputSupport
from streamkit.providers.tool_schema import ToolSchemaRules
from streamkit.target_ids import DEFAULT_ID_RULE, IdRule
from streamkit.wire_traits import WireTraits

__all__ = ["Framing", "Traits"]

Framing: TypeAlias = Literal["sse", "ndjson", "event_stream", "json_array"]


def _matches_nothing(_: bytes) -> bool:
    return False


def _rate_possible(_: Mapping[str, Any]) -> Rating:
    return POSSIBLE


def _model_unchanged(name: str) -> str:
    return name


def _stores_nothing(body: dict[str, Any]) -> bool:
    return False


def _body_unchanged(body: dict[str, Any]) -> dict[str, Any]:
    return body


def _sign_nothing(model: str, seed: str) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Traits(WireTraits):
    """The declared facts of one provider. Every field except the name has a default. No code may infer them otherwise.

    Attributes:
        name: the provider's name; a part of every canonical id.
        framing: how its bytes are delimited. A body of plain JSON instead is recognized automatically.
        matches_head: returns True if the first bytes of a body (without byte order mark and leading whitespace) can
            only have this wire format.
        compatible: other providers whose opaque state (signatures, item ids, own blocks) this one accepts.
        shared_hosts: matches the hosts of endpoints that accept each other's opaque state; None if there are none.
        normalize_model: returns a model's name without what this provider or a compatible one adds to it.
        id_rule: the rule for ids of calls.
        model_id_rules: rules that replace it for some models, by the name that ``ids.tool_id_strategy`` returns.
        call_id_path: the fields that lead from a message to the ids of its calls; lists on the way are searched.
        messages_field: the field of a request's body that holds the messages.
        reasoning_kind: the kind of reasoning that its own models stream.
        plain_reasoning: reasoning without a signature is sent back to the models.
        signs_reasoning: the provider signs all reasoning, so clients of the wire do not send any without a signature
            back as reasoning.
        tool_plans: a message has a field for a plan before calls. Elsewhere a plan is text.
        batched_results: all results of a round are in one message.
        calls_need_reasoning: a message with calls is rejected without the reasoning before them.
        media_speakers: the speakers whose images and files are sent to the provider; those of others are left out.
        sign_call: returns the metadata with which the provider signs the first call of a response, for (model, seed);
            the same seed gives the same metadata. The embedded server uses it.
        signature_fields: metadata names under which this provider signs calls.
        has_request_rules: the package contains rules for requests (``request_rules.py``).
        rate_message: returns whether a message can be of this wire format (``message_format``).
        has_importer: the package can convert the provider's own messages to history (``importer.py``).
        event_name_field: the field of a chunk that names its SSE event; None if events have no names.
        wrapper_event: the AWS event whose payload contains the chunk in base64; None if the event's name is the chunk's
            only member.
        line_end: the line end of its SSE streams.
        heartbeat: what its SSE streams contain while the model is silent; its clients skip it.
        endpoint: its HTTP endpoint.
        output: how its requests state the schema of a structured output; by default as a tool.
        tool_schema: the forms of a tool's schema that it refuses, with the whole request.
        classify_error: returns an error that the provider reported with its ``code``: the ``classify`` of the
            ``ErrorRules`` in ``errors.py`` of its package. By default the HTTP status alone decides.
        markup_families: the tool-call markup that its models may leave in the text, which ``leaked_markup`` of ``Turn``
            removes or recovers; by default every family, as for a server of any model.
        stream_usage: usage is streamed only if the request's ``stream_options`` ask for it; False if it always is.
        end_marker: the payload that follows the chunks and ends a stream, such as ``[DONE]``; None if there is none.
        system_field: the field of a request's body that holds the system text; None if it is a message.
        normalize_body: returns a request's body with the names that the package reads.
        stores_calls: returns whether the provider has the beginning of a body's conversation, so that a result in it
            may answer a call that is not.
        setting_fields: the path in the body of each setting whose value is the same there, by its neutral name.
        implied_fields: fields of a request that ask another provider for nothing if they have these values.
        has_settings: the package can read and write requests (``settings.py``, ``tool_definitions.py``).
        max_temperature: the highest temperature; None if there is no lower limit than on other wires.
        max_stop_texts: the most texts that may end a response; None if there is no limit.
        models: what differs by model: facts by a pattern that the beginning of a name in lower case matches; the first
            that matches applies.
        illegal_in_name: matches a character that a tool's name must not contain; None if any is accepted.
        longest_name: the most characters of a tool's name.
        custom_calls: there are custom tools, whose argument is a text. Elsewhere such a tool is offered as a function
            with one text, ``input``.
        tool_namespaces: tools may be grouped in namespaces. Elsewhere the group becomes a part of the name if it must.
        reasoning_state: returns the signature and the metadata with which a block of reasoning carries the state of
            another provider, for (state, whether the block has text); None if the wire has no field for it.
        call_state: the same for a call: its metadata; None if a block of reasoning must carry it.
        calls_carry_reasoning: clients of the wire send the state of calls back and not that of reasoning.
        joins_blocks: a message has all its reasoning, all its text and all its calls in a field each, so that their
            order is lost.
    """

    name: str
    framing: Framing = "sse"
    matches_head: Callable[[bytes], bool] = field(default=_matches_nothing, repr=False, compare=False)
    compatible: frozenset[str] = frozenset()
    shared_hosts: re.Pattern[str] | None = None
    normalize_model: Callable[[str], str] = field(default=_model_unchanged, repr=False, compare=False)
    id_rule: IdRule = DEFAULT_ID_RULE
    model_id_rules: Mapping[str, IdRule] = field(default_factory=dict, repr=False)
    call_id_path: tuple[str, ...] = ("tool_calls", "id")
    messages_field: str = "messages"
    batched_results: bool = False
    reasoning_kind: ReasoningKind = "text"
    plain_reasoning: bool = False
    signs_reasoning: bool = False
    tool_plans: bool = False
    calls_need_reasoning: bool = False
    media_speakers: frozenset[str] = frozenset({"human", "tool"})
    signature_fields: tuple[str, ...] = ()
    sign_call: Callable[[str, str], dict[str, Any]] = field(default=_sign_nothing, repr=False, compare=False)
    rate_message: RateMessage = field(default=_rate_possible, repr=False, compare=False)
    has_importer: bool = True
    has_request_rules: bool = True
    event_name_field: str | None = None
    wrapper_event: str | None = None
    line_end: str = "\n"
    # One line: openai-go before 3.43 reads a comment with a blank line as an event without data, and the stream fails
    # (maximhq/bifrost#5874, openai/openai-go#621).
    heartbeat: bytes = b": ping\n"
    stream_usage: bool = False
    end_marker: str | None = None
    markup_families: frozenset[MarkupFamily] = ALL_MARKUP_FAMILIES
    endpoint: Endpoint = field(default_factory=Endpoint)
    tool_schema: ToolSchemaRules = field(default_factory=ToolSchemaRules, repr=False)
    output: OutputSupport = field(default_factory=OutputSupport, repr=False)
    classify_error: Callable[[StreamError], StreamError] = field(
        default=ErrorRules().classify, repr=False, compare=False
    )
    system_field: str | None = None
    normalize_body: Callable[[dict[str, Any]], dict[str, Any]] = field(
        default=_body_unchanged, repr=False, compare=False
    )
    stores_calls: Callable[[dict[str, Any]], bool] = field(default=_stores_nothing, repr=False, compare=False)
    setting_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    implied_fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    has_settings: bool = True
    max_temperature: float | None = None
    max_stop_texts: int | None = None
    models: Mapping[str, ModelFacts] = field(default_factory=dict, repr=False)
    illegal_in_name: re.Pattern[str] | None = None
    longest_name: int = 64
    custom_calls: bool = False
    tool_namespaces: bool = False
    reasoning_state: Callable[[str, bool], tuple[str | None, dict[str, Any]]] | None = field(
        default=None, repr=False, compare=False
    )
    call_state: Callable[[str], dict[str, Any]] | None = field(default=None, repr=False, compare=False)
    calls_carry_reasoning: bool = False
    joins_blocks: bool = False

    def facts_for(self, model: str | None) -> ModelFacts:
        """Return the declared facts of a model; those of an unknown one if no pattern matches."""
        name = self.normalize_model(model).casefold() if model else ""
        for match, facts in self._model_facts:
            if match(name):
                return facts
        return UNKNOWN_MODEL

    @cached_property
    def _model_facts(self) -> list[tuple[Callable[[str], re.Match[str] | None], ModelFacts]]:
        """The function that matches each pattern of `models`, and its facts, in their order."""
        return [(re.compile(pattern).match, facts) for pattern, facts in self.models.items()]

    @cached_property
    def settings_of_fields(self) -> Mapping[str, Sequence[tuple[str, tuple[str, ...]]]]:
        """The settings of `setting_fields` and their paths, by the first field of the path."""
        paths = {**self.setting_fields, "max_output_tokens": self.endpoint.limit_field}
        if self.endpoint.model_in_body:
            paths["model"] = ("model",)
        found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        for name, path in paths.items():
            found.setdefault(path[0], []).append((name, path))
        return found

    def legal_name(self, name: str) -> str:
        """Return a tool's name as the provider accepts it, with its illegal characters replaced."""
        if self.illegal_in_name is None:
            return name
        return self.illegal_in_name.sub("_", name)[: self.longest_name] or "unnamed"

    def is_from_provider(self, metadata: Mapping[str, Any]) -> bool:
        """Return True if a block with this metadata is from this provider or a compatible one."""
        origin = metadata.get("provider")
        return origin == self.name or (isinstance(origin, str) and origin in self.compatible)

    def accepts_state(self, metadata: Mapping[str, Any], model: str | None = None, endpoint: str | None = None) -> bool:
        """Return True if opaque state of a block with this metadata is valid for this model at this endpoint.

        Args:
            metadata: the block's metadata.
            model: the requested model; None if it is unchanged.
            endpoint: the requested server; None if it is unchanged.
        """
        return (
            self.is_from_provider(metadata)
            and is_same_model(metadata, model, self.normalize_model)
            and is_same_endpoint(
                metadata, endpoint, self.shared_hosts, is_same_provider=metadata.get("provider") == self.name
            )
        )

    def id_rule_for(self, model: str | None) -> IdRule:
        """Return the rule for ids of calls in requests to a model."""
        if not model or not self.model_id_rules:
            return self.id_rule
        return self.model_id_rules.get(tool_id_strategy(self.name, model), self.id_rule)
