"""The declared facts of a provider, and what follows from them alone.

A provider's ``traits.py`` declares one `Traits` object; a fact about a provider is in it or nowhere. This module must
not depend on any provider, nor on history.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from streamkit.calls import ALL_MARKUP_FAMILIES, MarkupFamily, StreamError, WireTraits
from streamkit.events import ReasoningKind
from streamkit.ids import tool_id_strategy
from streamkit.message_format import POSSIBLE, RateMessage, Rating
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.error_rules import ErrorRules
from streamkit.providers.origin import is_same_endpoint, is_same_model
from streamkit.providers.output_form import OutputSupport
from streamkit.providers.tool_schema import ToolSchemaRules
from streamkit.target_ids import DEFAULT_ID_RULE, IdRule

__all__ = ["Framing", "Traits"]

Framing: TypeAlias = Literal["sse", "ndjson", "event_stream", "json_array"]


def _matches_nothing(_: bytes) -> bool:
    return False


def _rate_possible(_: Mapping[str, Any]) -> Rating:
    return POSSIBLE


def _model_unchanged(name: str) -> str:
    return name


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
        endpoint: its HTTP endpoint.
        output: how its requests state the schema of a structured output; by default as a tool.
        tool_schema: the forms of a tool's schema that it refuses, with the whole request.
        classify_error: returns an error that the provider reported with its ``code``: the ``classify`` of the
            ``ErrorRules`` in ``errors.py`` of its package. By default the HTTP status alone decides.
        markup_families: the tool-call markup that its models may leave in the text, which ``leaked_markup`` of ``Turn``
            removes or recovers; by default every family, as for a server of any model.
        end_marker: the payload that follows the chunks and ends a stream, such as ``[DONE]``; None if there is none.
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
    end_marker: str | None = None
    markup_families: frozenset[MarkupFamily] = ALL_MARKUP_FAMILIES
    endpoint: Endpoint = field(default_factory=Endpoint)
    tool_schema: ToolSchemaRules = field(default_factory=ToolSchemaRules, repr=False)
    output: OutputSupport = field(default_factory=OutputSupport, repr=False)
    classify_error: Callable[[StreamError], StreamError] = field(
        default=ErrorRules().classify, repr=False, compare=False
    )

    def is_from_provider(self, metadata: Mapping[str, Any]) -> bool:
        """Return True if a block with this metadata is from this provider or a compatible one."""
        origin = metadata.get("provider")
        return isinstance(origin, str) and (origin == self.name or origin in self.compatible)

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
