"""The declared facts of a provider, and what follows from them alone.

A provider's ``traits.py`` declares one `Traits` object; a fact about a provider is in it or nowhere. This module must
not depend on any provider, nor on history.

The HTTP endpoint of a provider, as data: address, path, key, and the requests and ids of its server.

What differs by model: limits, settings that a model refuses, and the form in which its reasoning is requested.

`Traits.models` maps patterns of names to `ModelFacts`; each entry names the vendor's page. A model without an entry has
`UNKNOWN_MODEL`: nothing is left out, and settings are written as they are.

Efforts and budgets are translated by Google's table for clients of another vendor
(https://ai.google.dev/gemini-api/docs/openai#thinking): low 1,024 tokens, medium 8,192, high 24,576.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from streamkit.accumulator.limits import WireTraits
from streamkit.calls import ALL_MARKUP_FAMILIES, MarkupFamily, StreamError
from streamkit.events import ReasoningKind
from streamkit.ids import DEFAULT_ID_RULE, IdRule, tool_id_strategy
from streamkit.providers.contract.error_rules import ErrorRules
from streamkit.providers.contract.output_form import OutputSupport
from streamkit.providers.contract.rendered import is_same_endpoint, is_same_model
from streamkit.providers.contract.tool_schema import ToolSchemaRules
from streamkit.values.message_format import RateMessage, rate_as_possible

__all__ = [
    "EFFORTS",
    "MODEL_ENTRY",
    "UNKNOWN_MODEL",
    "UNKNOWN_TIME",
    "Endpoint",
    "Framing",
    "ModelFacts",
    "SharedField",
    "Traits",
    "budget_for",
    "effort_for",
    "matches_no_head",
    "nearest_effort",
]


#: When a model was made is not known here, and the SDKs need a date.
UNKNOWN_TIME = "1970-01-01T00:00:00Z"
#: A model in the lists of OpenAI and Anthropic: a gateway has one path for both, and each SDK reads its own fields.
MODEL_ENTRY: Mapping[str, Any] = {
    "id": "{model}",
    "object": "model",
    "created": 0,
    "owned_by": "streamkit",
    "type": "model",
    "display_name": "{model}",
    "created_at": UNKNOWN_TIME,
    "lifecycle": "active",
}


class Endpoint(Struct, frozen=True, kw_only=True):
    """The HTTP endpoint of one provider.

    Attributes:
        base_url: the base URL that the provider's own SDK has; None if it differs for every user.
        base_url_variable: the environment variable that usually contains it.
        path: the path after the base URL; ``{model}`` is the model.
        key_variables: the environment variables that may contain the key; the first one that is set is used.
        key_header: the name of the header with the key, and its value with ``{}`` for the key.
        key_required: the provider rejects requests without a key.
        headers: further headers of every request.
        feature_headers: the headers, in lower case, with which a client selects features that fields of the body need.
        model_in_body: the model is a field of the body.
        limit_field: the path in the body of the maximum number of tokens of a response.
        default_limit: this maximum if the caller sets none, for providers that reject a request without it.
        sdk_base_path: the path that the base URL of the provider's SDK has after the server's address.
        route: a regular expression for the path of a request, with the group ``model`` if the model is in it, and the
            group ``verb`` if the path asks for a stream.
        route_example: an example of such a path, for error messages.
        further_paths: as ``path``, of requests for counts of tokens and for embeddings, which a gateway passes on as
            they are; with the body of a count, which has 0 for the number, and None for embeddings.
        models_path: the path after the base URL of the list of its models, with the query; None if it has none.
        models_field: the field of the models in that list.
        model_entry: what the list has of a model; in its texts ``{model}`` is the name and ``{digest}`` a hash of it.
        response_id: prefix of response ids, and the number of characters after it.
        call_id: the same for call ids; None if the wire has none or the encoder creates them.
        streams_by_default: a body that does not mention streaming asks for a stream.
        request_id_header: the header of a response with its id, from which the SDKs read it.
        limit_headers: how the names of the headers of a response about rate limits and about another try begin, in
            lower case.
        error_name_header: the header of a refused request that names its error; None if the body alone does.
        error_names: the name of the error by HTTP status, for that header.
        answers_arrays: the response is one JSON array if the query does not ask for events.
    """

    base_url: str | None = None
    base_url_variable: str | None = None
    path: str = "/chat/completions"
    key_variables: tuple[str, ...] = ()
    key_header: tuple[str, str] = ("authorization", "Bearer {}")
    key_required: bool = True
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    feature_headers: tuple[str, ...] = ()
    model_in_body: bool = True
    limit_field: tuple[str, ...] = ("max_tokens",)
    default_limit: int | None = None
    # Facts of a server of this wire. The defaults are those of Chat Completions, the wire format of most third parties.
    sdk_base_path: str = "/v1"
    route: str = r"(?:/openai/deployments/(?P<model>[^/]+)|/.+)?/chat/completions"
    route_example: str = "/v1/chat/completions"
    further_paths: Mapping[str, Mapping[str, Any] | None] = msgspec.field(default_factory=lambda: {"/embeddings": None})
    models_path: str | None = "/models"
    models_field: str = "data"
    model_entry: Mapping[str, Any] = msgspec.field(default_factory=lambda: MODEL_ENTRY)
    # The forms of ids are those of real streams, such as call_WY2R9D3MQrwbUTvQFtua91zx.
    response_id: tuple[str, int] = ("chatcmpl-", 29)
    call_id: tuple[str, int] | None = ("call_", 24)
    streams_by_default: bool = False
    request_id_header: str = "x-request-id"
    # https://platform.openai.com/docs/guides/rate-limits (Groq, Mistral and others have other ends). The SDKs
    # of OpenAI and Anthropic read ``x-should-retry`` before the status.
    limit_headers: tuple[str, ...] = ("x-ratelimit", "x-should-retry")
    error_name_header: str | None = None
    error_names: Mapping[int, str] = msgspec.field(default_factory=dict)
    answers_arrays: bool = False


#: The efforts of all vendors, from the least to the most.
EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 32768}


class ModelFacts(Struct, frozen=True, kw_only=True):
    """Declared facts of one or several models.

    Attributes:
        source: the vendor's page, or the issue with the refusal.
        max_output_tokens: the most tokens of a response; a request with more is refused. None if unknown.
        refused: the settings that are refused, by their neutral names.
        reasoning: how reasoning is requested: ``none``, the model has none and refuses the setting; ``effort``;
            ``budget``, in tokens; ``adaptive``, the model decides, and a budget is refused; ``any``, in every form
            that the wire has.
        efforts: the efforts that are accepted; empty for any.
        max_budget: the largest budget; None if unknown.
        reasoning_is_optional: reasoning can be turned off.
        temperature_excludes_top_p: a request with both settings is refused.
    """

    source: str
    max_output_tokens: int | None = None
    refused: frozenset[str] = frozenset()
    reasoning: Literal["none", "effort", "budget", "adaptive", "any"] = "any"
    efforts: tuple[str, ...] = ()
    max_budget: int | None = None
    reasoning_is_optional: bool = True
    temperature_excludes_top_p: bool = False


UNKNOWN_MODEL = ModelFacts(source="")


def nearest_effort(effort: str, accepted: Sequence[str]) -> str:
    """Return the accepted effort that is nearest, of two the higher one; an unknown effort unchanged.

    A model that accepts only names that are no degree (``default``) gets the first of them.
    """
    if not accepted or effort in accepted or effort not in EFFORTS:
        return effort
    wanted = EFFORTS.index(effort)
    degrees = [name for name in accepted if name in EFFORTS] or accepted[:1]
    if degrees[0] not in EFFORTS:
        return degrees[0]
    return min(degrees, key=lambda name: (abs(EFFORTS.index(name) - wanted), -EFFORTS.index(name)))


def budget_for(effort: str | None) -> int:
    """Return the budget in tokens for an effort; that of ``medium`` for none and for an unknown one."""
    return _BUDGETS.get(effort or "", _BUDGETS["medium"])


def effort_for(budget: int) -> str:
    """Return the least effort with at least this budget."""
    return next((name for name in ("low", "medium", "high") if _BUDGETS[name] >= budget), "high")


class SharedField(Struct, frozen=True):
    """A field of a request's body that has the same meaning on several wires.

    Attributes:
        path: where it is in the body.
        beside: fields that must be there with it; of a list these items.
        accepts: a pattern of the whole texts that the wire accepts; None: the wire accepts what the others do.
    """

    path: tuple[str, ...]
    beside: Mapping[str, Any] = {}
    accepts: re.Pattern[str] | None = None


Framing: TypeAlias = Literal["sse", "ndjson", "event_stream", "json_array"]


def matches_no_head(head: bytes) -> bool:
    """Return False: no body is recognized by its first bytes."""
    return False


class Traits(WireTraits, frozen=True, kw_only=True, dict=True):
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
        request_rules: the module whose ``build_rules(traits)`` returns the rules by which the provider refuses requests
            with status 400, as ``streamkit.testing.rules`` has them; None if none are known.
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
            ``ErrorRules`` of its package. By default the HTTP status alone decides.
        markup_families: the tool-call markup that its models may leave in the text, which ``leaked_markup`` of ``Turn``
            removes or recovers; by default every family, as for a server of any model.
        stream_usage: usage is streamed only if the request's ``stream_options`` ask for it; False if it always is.
        end_marker: the payload that follows the chunks and ends a stream, such as ``[DONE]``; None if there is none.
        system_field: the field of a request's body that holds the system text; None if it is a message.
        normalize_body: returns a request's body with the names that the package reads; None if it has them.
        stores_calls: returns whether the provider has the beginning of a body's conversation, so that a result in it
            may answer a call that is not.
        setting_fields: the path in the body of each setting whose value is the same there, by its neutral name.
        shared_fields: fields without a neutral setting that other wires have, too, by a name for all of them.
        implied_fields: fields of a request that ask another provider for nothing if they have these values.
        has_settings: the package can read and write requests (``requests.py``).
        max_temperature: the highest temperature; None if there is no lower limit than on other wires.
        max_stop_texts: the most texts that may end a response; None if there is no limit.
        models: what differs by model: facts by a pattern that the beginning of a name in lower case matches; the first
            that matches applies.
        illegal_in_name: matches a character that a tool's name must not contain; None if any is accepted.
        longest_name: the most characters of a tool's name.
        cache_marks: blocks of a request have marks for a cache (docs/rules.md, "Cache marks").
        image_details: an image has the detail in which a model sees it.
        custom_calls: there are custom tools, whose argument is a text. Elsewhere such a tool is offered as a function
            with one text, ``input``.
        tool_namespaces: tools may be grouped in namespaces. Elsewhere the group becomes a part of the name if it must.
        reasoning_state: returns the signature and the metadata with which a block of reasoning carries the state of
            another provider, for (state, whether the block has text); None if the wire has no field for it.
        call_state: the same for a call: its metadata; None if a block of reasoning must carry it.
        calls_carry_reasoning: clients of the wire send the state of calls back and not that of reasoning.
        npm_names: its names in the ``providerMetadata`` of npm ``ai``, which has the state as the two above take it.
        joins_blocks: a message has all its reasoning, all its text and all its calls in a field each, so that their
            order is lost.
    """

    name: str
    framing: Framing = "sse"
    matches_head: Callable[[bytes], bool] = matches_no_head
    compatible: frozenset[str] = frozenset()
    shared_hosts: re.Pattern[str] | None = None
    normalize_model: Callable[[str], str] = str
    id_rule: IdRule = DEFAULT_ID_RULE
    model_id_rules: Mapping[str, IdRule] = {}
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
    sign_call: Callable[[str, str], dict[str, Any]] = field(default=lambda model, seed: {})
    rate_message: RateMessage = rate_as_possible
    has_importer: bool = True
    request_rules: str | None = None
    event_name_field: str | None = None
    wrapper_event: str | None = None
    line_end: str = "\n"
    # One line: openai-go before 3.43 reads a comment with a blank line as an event without data, and the stream fails
    # (maximhq/bifrost#5874, openai/openai-go#621).
    heartbeat: bytes = b": ping\n"
    stream_usage: bool = False
    end_marker: str | None = None
    markup_families: frozenset[MarkupFamily] = ALL_MARKUP_FAMILIES
    endpoint: Endpoint = Endpoint()
    tool_schema: ToolSchemaRules = ToolSchemaRules()
    output: OutputSupport = OutputSupport()
    classify_error: Callable[[StreamError], StreamError] = ErrorRules().classify
    system_field: str | None = None
    normalize_body: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    stores_calls: Callable[[dict[str, Any]], bool] = field(default=lambda body: False)
    setting_fields: Mapping[str, tuple[str, ...]] = {}
    shared_fields: Mapping[str, SharedField] = {}
    implied_fields: Mapping[str, Any] = {}
    has_settings: bool = True
    max_temperature: float | None = None
    max_stop_texts: int | None = None
    models: Mapping[str, ModelFacts] = {}
    illegal_in_name: re.Pattern[str] | None = None
    longest_name: int = 64
    cache_marks: bool = False
    image_details: bool = False
    custom_calls: bool = False
    tool_namespaces: bool = False
    reasoning_state: Callable[[str, bool], tuple[str | None, dict[str, Any]]] | None = None
    call_state: Callable[[str], dict[str, Any]] | None = None
    calls_carry_reasoning: bool = False
    npm_names: tuple[str, ...] = ()
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
