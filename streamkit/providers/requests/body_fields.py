"""The fields of a request's body: reading them one by one, and the settings that have the same form on several wires.

Fields that were read are taken away. What remains is the ``unread`` of a `Request`.

A setting whose value is the same on the wire is a row of `Traits.setting_fields`, from which reading and writing both
follow. ``requests.py`` of a provider's package has the others: reasoning, the output format, forms that differ.
This module must not depend on a provider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from streamkit.providers.contract.output_form import OutputRefused
from streamkit.providers.contract.traits import ModelFacts, Traits, nearest_effort
from streamkit.providers.requests.request import OutputFormat, Settings
from streamkit.providers.requests.strict import guaranteed_format, strict_format
from streamkit.tools import StrictProfile
from streamkit.values.request_changes import LeftOut, Lost, RequestChange, Translated

__all__ = [
    "LEAST_BUDGET",
    "BodyFields",
    "SettingsWriter",
    "asks_for_usage",
    "is_number",
    "is_object",
    "is_texts",
    "merge_fields",
    "openai_output_format",
    "read_plain_settings",
    "take_effort",
]

_TEXT = frozenset({str})
#: The fewest tokens of reasoning that are of use: the least that Anthropic accepts
#: (https://platform.claude.com/docs/en/api/messages).
LEAST_BUDGET = 1024

#: What a value must be: of a type (a text is not empty then, an integer no boolean), or what a function accepts.
Check: TypeAlias = type[str] | type[int] | type[bool] | type[list[Any]] | Callable[[Any], bool]


def asks_for_usage(body: Any) -> bool:
    """Return True if a request of Chat Completions asks for a chunk without choices, with the token counts.

    Clients that do not ask read ``choices[0]`` of every chunk
    (https://platform.openai.com/docs/api-reference/chat/create, "stream_options"). Bodies of other wires have no such
    field.
    """
    options = body.get("stream_options") if isinstance(body, dict) else None
    return isinstance(options, dict) and options.get("include_usage") is True


def is_number(value: Any) -> bool:
    """Return True for a finite number that is no boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0


def is_texts(value: Any) -> bool:
    """Return True for a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def is_object(value: Any) -> bool:
    """Return True for an object with text as names."""
    if not isinstance(value, dict):
        return False
    return _TEXT.issuperset(map(type, value)) or all(isinstance(name, str) for name in value)


def merge_fields(body: dict[str, Any], fields: dict[str, Any]) -> None:
    """Add fields to a body, also inside of its objects, which are copied. A field that is there stays."""
    for name, value in fields.items():
        if name not in body:
            body[name] = value
        elif isinstance(body[name], dict) and isinstance(value, dict):
            body[name] = dict(body[name])
            merge_fields(body[name], value)


class BodyFields:
    """The fields of a body that were not read yet. The body itself is not modified.

    Args:
        body: the decoded JSON body.

    Attributes:
        rest: the fields that remain.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        self.rest: dict[str, Any] = dict(body)
        self._copies: list[dict[str, Any]] = [self.rest]  # the objects that may be changed

    def get(self, *path: str) -> Any:
        """Return the value at a path, which stays; None if there is none."""
        if path[0] not in self.rest:
            return None
        value: Any = self.rest
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def take(self, *path: str, check: Check | None = None) -> Any:
        """Take the value at a path away and return it, if it passes the check; otherwise return None and leave it.

        Null is taken away and means absent; an object that becomes empty is taken away too.
        """
        name = path[-1]
        parent = self.rest if len(path) == 1 else self.get(*path[:-1])
        if not isinstance(parent, dict) or name not in parent:
            return None
        value = parent[name]
        if value is not None and check is not None:
            if not isinstance(check, type):
                fits = check(value)
            else:
                fits = isinstance(value, check) and value != "" and (check is bool or not isinstance(value, bool))
            if not fits:
                return None
        if len(path) == 1:
            return self.rest.pop(name)
        owned = self._own(path[:-1])
        del owned[-1][name]
        for depth in range(len(owned) - 1, 0, -1):
            if owned[depth]:
                break
            del owned[depth - 1][path[depth - 1]]
        return value

    def put_back(self, name: str, value: Any) -> None:
        """Add a field of the body again: the part of it that was not read."""
        self.rest[name] = value

    def _own(self, path: Sequence[str]) -> list[dict[str, Any]]:
        """Return the objects on a path, each replaced by a copy before its first change."""
        owned = [self.rest]
        for name in path:
            child = owned[-1][name]
            if not any(child is copy for copy in self._copies):
                child = owned[-1][name] = dict(child)
                self._copies.append(child)
            owned.append(child)
        return owned


Json = dict[str, Any]
_CHECKS: dict[str, Check] = {
    "model": str,
    "max_output_tokens": int,
    "temperature": is_number,
    "top_p": is_number,
    "top_k": is_number,
    "stop": is_texts,
    "seed": int,
    "frequency_penalty": is_number,
    "presence_penalty": is_number,
    "parallel_calls": bool,
    "verbosity": str,
}

_REASONING = frozenset({"reasoning", "reasoning_effort", "reasoning_budget", "reasoning_summary"})
#: The settings without which a request has the same meaning.
_WISHES = _REASONING | {"temperature", "top_p", "top_k", "seed", "frequency_penalty", "presence_penalty", "verbosity"}


def read_plain_settings(fields: BodyFields, traits: Traits) -> Json:
    """Take the settings of `Traits.setting_fields` and return them by their neutral names."""
    values: Json = {}
    for field in list(fields.rest):
        for name, path in traits.settings_of_fields.get(field, ()):
            if name == "stop" and (text := fields.take(*path, check=str)) is not None:
                values[name] = [text]
            elif (value := fields.take(*path, check=_CHECKS[name])) is not None:
                values[name] = value
    return values


def take_effort(fields: BodyFields, *path: str) -> Json:
    """Take an effort of OpenAI's form and return its settings: ``none`` turns reasoning off."""
    effort = fields.take(*path, check=str)
    if effort is None:
        return {}
    return {"reasoning": "off"} if effort == "none" else {"reasoning": "auto", "reasoning_effort": effort}


def openai_output_format(value: Any, *, is_nested: bool) -> OutputFormat | None:
    """Return an output format in OpenAI's form; None if it has another form.

    A nested one has a schema in an object of its own, ``json_schema``, not beside the type.
    """
    if not is_object(value):
        return None
    if value in ({"type": "text"}, {"type": "json_object"}):
        return OutputFormat(type="text" if value["type"] == "text" else "json")
    if value.get("type") != "json_schema":
        return None
    if is_nested:
        if value.keys() != {"type", "json_schema"} or not is_object(value["json_schema"]):
            return None
        value = value["json_schema"]
    names = {"name": str, "description": str, "strict": bool, "schema": dict}
    if value.keys() - names.keys() - {"type"} or not isinstance(value.get("schema"), dict):
        return None
    given = {name: value[name] for name in names if value.get(name) is not None}
    if not all(isinstance(item, names[name]) for name, item in given.items()):
        return None
    schema = given.pop("schema")
    return OutputFormat(type="json_schema", json_schema=schema, **given)


def _without_setting(name: str, reason: str) -> RequestChange:
    sentence = f"the setting {name!r} was left out: {reason}"
    return LeftOut(sentence) if name in _WISHES else Lost(sentence)


class SettingsWriter:
    """The settings that were not written yet, and the body that they are written into.

    Args:
        settings: the settings.
        traits: the target's traits.
        body: the body, with the messages and tools of the request; fields are added to it.
        changes: receives a sentence for each setting that was changed or left out.
        is_foreign: whether the request was read in the form of another provider.

    Attributes:
        facts: the facts of the requested model.
        traits: those of the target.
        refused_output: the form of the response's text that was left out, and why; None without one.
    """

    def __init__(
        self, settings: Settings, traits: Traits, body: Json, changes: list[RequestChange], *, is_foreign: bool
    ):
        self.facts: ModelFacts = traits.facts_for(settings.model)
        self.body = body
        self.is_foreign = is_foreign
        self.refused_output: tuple[OutputFormat, str] | None = None
        self.traits: Traits = traits
        self._changes = changes
        self._values = settings.values
        self._model = self._values.pop("model", None)
        if self._model is not None and traits.endpoint.model_in_body:
            body["model"] = self._model
        refused = self.facts.refused
        for name in sorted(refused & self._values.keys()) if refused else ():
            del self._values[name]
            self.report(_without_setting(name, f"{self._model} refuses it"))

    def report(self, change: RequestChange) -> None:
        """Record a change, unless it was recorded already."""
        if change not in self._changes:
            self._changes.append(change)

    @property
    def sets_reasoning(self) -> bool:
        """Whether a setting of reasoning is set."""
        return not _REASONING.isdisjoint(self._values)

    def take(self, name: str) -> Any:
        """Return the value of a setting, which then counts as written; None if it is not set."""
        return self._values.pop(name, None)

    def get(self, name: str) -> Any:
        """Return the value of a setting; None if it is not set."""
        return self._values.get(name)

    def omit(self, name: str, reason: str) -> None:
        """Leave a setting out and report it, if it is set."""
        if self._values.pop(name, None) is not None:
            self.report(_without_setting(name, reason))

    def put(self, value: Any, *path: str) -> None:
        """Write a value into the body."""
        target = self.body
        for name in path[:-1]:
            child = target.get(name)
            target[name] = target = dict(child) if isinstance(child, dict) else {}
        target[path[-1]] = value

    def write_output_format(
        self,
        fields_of: Callable[[OutputFormat], Json],
        strict: StrictProfile | None = None,
        *,
        enforces: bool = True,
    ) -> OutputFormat | None:
        """Write the form of the response's text and return it; None if it is not set, or if `refused_output` has it.

        Args:
            fields_of: returns the fields of a body that request a form.
            strict: the strict mode of the target; another provider's schema is converted to it.
            enforces: the target enforces every schema, and takes none in another form than that of its strict mode;
                else it does if the request says so.
        """
        output: OutputFormat | None = self.take("output_format")
        if output is None:
            return None
        if self.is_foreign and output.type == "json_schema":
            is_streamed, has_tools = self.body.get("stream") is True, bool(self.body.get("tools"))
            reason = self.traits.output.reason_without_field(self._model, stream=is_streamed, has_tools=has_tools)
            if reason is not None:
                self.refused_output = (output, reason)
                return None
        try:
            if self.is_foreign and not enforces and output.strict:
                output = self._guaranteed(output, strict)
            elif self.is_foreign and enforces and strict is not None:
                output = strict_format(output, strict)
            fields = fields_of(output)
        except OutputRefused as error:
            self.refused_output = (output, str(error))
            return None
        if output.type == "json" and not fields:
            self.refused_output = (output, f"{self.traits.name} has a form of the output only for a schema")
            return None
        merge_fields(self.body, fields)
        return output

    def _guaranteed(self, output: OutputFormat, strict: StrictProfile | None) -> OutputFormat:
        """Return an output format that the target enforces; if it cannot, one that it does not, and report that."""
        reason = f"{self.traits.name} has no strict mode"
        if strict is not None:
            try:
                return guaranteed_format(output, strict)
            except OutputRefused as error:
                reason = str(error)
        self.report(Lost(f"the schema of the output format is not enforced: {reason}"))
        return output.model_copy(update={"strict": None if strict is None else False})

    def accepted_effort(self, effort: str) -> str:
        """Return the effort that the model accepts and that is nearest; another one is reported."""
        accepted = nearest_effort(effort, self.facts.efforts)
        if accepted != effort:
            self.report(Translated(f"the reasoning effort {effort!r} became {accepted!r}, which the model accepts"))
        return accepted

    def fitting_budget(self, budget: int, limit: int | None, *, is_exact: bool) -> int | None:
        """Return the tokens of reasoning, with room for the response after it; None if too few are left to be of use.

        Args:
            budget: the tokens that are wanted.
            limit: the most tokens of the response, reasoning included; None if there is no limit.
            is_exact: the client has set them in this provider's own form, so that they stay if they are accepted.
        """
        if limit is None or (is_exact and budget < limit):
            return budget
        fitting = min(budget, limit - 1 if is_exact else limit // 2)
        if fitting < LEAST_BUDGET:
            sentence = f"reasoning was left out: it needs {LEAST_BUDGET} tokens, and the response has {limit}"
            self.report(LeftOut(sentence))
            return None
        if fitting != budget:
            self.report(Translated(f"the reasoning budget was changed from {budget} to {fitting} of {limit} tokens"))
        return fitting

    def write_limit(self) -> int | None:
        """Write the most tokens of the response and return them; None if there is no limit.

        A provider that requires the field gets the most that the model accepts, or its default for unknown models.
        """
        endpoint, most = self.traits.endpoint, self.facts.max_output_tokens
        limit = self.take("max_output_tokens")
        if limit is None:
            limit = None if endpoint.default_limit is None else most or endpoint.default_limit
        elif most is not None and limit > most:
            self.report(Translated(f"the limit of {limit} output tokens became {most}: {self._model} accepts no more"))
            limit = most
        if limit is not None:
            self.put(limit, *endpoint.limit_field)
        return limit if isinstance(limit, int) else None

    def write_rest(self) -> None:
        """Write the settings of `Traits.setting_fields`, and report the remaining ones, for which there is no field."""
        if not self._values:
            return
        self._fit("temperature", self.traits.max_temperature)
        if self.facts.temperature_excludes_top_p:
            temperature, top_p = self.get("temperature"), self.get("top_p")
            if temperature is not None and top_p is not None:
                # a temperature of 1 is what the model has without it
                name = "temperature" if temperature == 1 != top_p else "top_p"
                self.omit(name, f"{self._model} accepts a temperature or a top_p, not both")
        stop, most = self.get("stop"), self.traits.max_stop_texts
        if stop is not None and most is not None and len(stop) > most:
            self._values["stop"] = stop[:most]
            self.report(Lost(f"only the first {most} of {len(stop)} texts that end the response were kept"))
        for name, path in self.traits.setting_fields.items():
            if (value := self.take(name)) is not None:
                self.put(value, *path)
        for name in sorted(self._values):
            self.omit(name, f"{self.traits.name} has no field for it")

    def _fit(self, name: str, most: float | None) -> None:
        value = self.get(name)
        if value is not None and most is not None and value > most:
            self._values[name] = most
            sentence = f"the setting {name!r} was changed from {value} to {most}, the most that is accepted"
            self.report(Translated(sentence))
