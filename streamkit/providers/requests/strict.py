"""Facts about strict modes that several providers share; ``streamkit.tools.StrictProfile`` describes the fields.

The profile of one provider is in its package. A provider has none if the tool type of its API has no field for strict
mode, or if no strict mode is documented: its requests contain a strict tool in the same form as any other tool.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from streamkit.errors import UsageError
from streamkit.providers.contract.output_form import OutputRefused
from streamkit.providers.requests.request import OutputFormat
from streamkit.tools import StrictProfile
from streamkit.values.request_changes import Lost, RequestChange

if TYPE_CHECKING:
    from streamkit.output import OutputType

__all__ = [
    "CLAUDE_KEYWORDS",
    "OPENAI",
    "guaranteed_format",
    "plain_output",
    "strict_format",
    "strict_output",
    "strict_output_if_possible",
]

# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas (read 2026-11): every property required,
# "it is possible to emulate an optional parameter by using a union type with null"; the keywords and formats below;
# 5,000 properties, 10 levels, 1,000 values in enums; recursion is accepted, by definitions or by "#". For a ``default``
# the API reports "is not permitted".
OPENAI = StrictProfile(
    "OpenAI",
    every_required=True,
    keywords={
        "pattern": None,
        "format": frozenset(["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"]),
        "multipleOf": None,
        "minimum": None,
        "maximum": None,
        "exclusiveMinimum": None,
        "exclusiveMaximum": None,
        "minItems": None,
        "maxItems": None,
    },
    properties=5000,
    depth=10,
    enum_values=1000,
)

# The keywords of https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations (read
# 2026-11), which Bedrock documents for every model.
CLAUDE_KEYWORDS: dict[str, frozenset[Any] | None] = {
    "default": None,
    "format": frozenset(["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"]),
    "minItems": frozenset((0, 1)),
}


def plain_output(output: OutputType[Any], *, strict: bool | None = None) -> OutputFormat:
    """Return the form of a structured output with the schema as it is."""
    return _form(output, output.schema, strict)


def strict_output(output: OutputType[Any], profile: StrictProfile) -> OutputFormat:
    """Return the form of a structured output with the schema that a provider's strict mode takes.

    Raises:
        OutputRefused: it has no such form; the message gives the path and the reason.
    """
    schema = _strict_schema(f"the output {output.name}", output.schema, profile)
    return _form(output, schema, strict=True)


def strict_format(output: OutputFormat, profile: StrictProfile) -> OutputFormat:
    """Return the output format of a client of another provider with the schema that a provider's strict mode takes.

    Raises:
        OutputRefused: it has no such form; the message gives the path and the reason.
    """
    if output.type != "json_schema":
        return output
    schema = _strict_schema("the output", output.json_schema or {}, profile)
    return output.model_copy(update={"json_schema": schema})


def guaranteed_format(output: OutputFormat, profile: StrictProfile) -> OutputFormat:
    """Return the output format of a client of another provider, whose schema is enforced, for OpenAI's strict mode.

    Raises:
        OutputRefused: the schema has no such form, or one in which the output differs: the mode has no optional
            properties, but ones that may be null, which the client's schema does not allow.
    """
    from streamkit.tools.strict_schema import StrictSchema

    plain = StrictSchema("the output", output.json_schema or {}, replace(profile, every_required=False))
    with suppress(UsageError):  # raised again below, by the mode itself
        plain.parameters()
    if profile.every_required and plain.optional:
        raise OutputRefused(f"{profile.target} has no strict mode for properties that are not required")
    return strict_format(output, profile)


def strict_output_if_possible(
    output: OutputType[Any], profile: StrictProfile | None, changes: list[RequestChange]
) -> OutputFormat:
    """Return the form of a structured output for a target that accepts schemas that are not strict, too.

    A target without a strict mode has no profile. ``changes`` receives a sentence if the schema has no strict form.
    """
    if profile is None:
        return plain_output(output)
    try:
        return strict_output(output, profile)
    except OutputRefused as error:
        changes.append(Lost(f"{error}; the model is not forced to keep to the schema"))
        return plain_output(output, strict=False)


def _strict_schema(subject: str, schema: dict[str, Any], profile: StrictProfile) -> dict[str, Any]:
    """Return a schema in the form of a strict mode, or raise OutputRefused that names its subject."""
    from streamkit.tools.strict_schema import StrictSchema  # most requests have neither strict tools nor an output

    converted = StrictSchema(subject, schema, profile)
    try:
        parameters = converted.parameters()
    except UsageError as error:
        raise OutputRefused(str(error)) from None
    for counted, count, limit in (
        ("properties", converted.properties, profile.fields),
        ("properties that are not required", converted.optional, profile.optional),
        ("properties of several types", converted.unions, profile.unions),
    ):
        if limit is not None and count > limit:
            raise OutputRefused(
                f"{subject} cannot be strict for {profile.target}: it has {count} {counted}, but at most"
                f" {limit} are allowed"
            )
    return parameters


def _form(output: OutputType[Any], schema: dict[str, Any], strict: bool | None) -> OutputFormat:
    description = output.description or None
    return OutputFormat(
        type="json_schema", json_schema=schema, name=output.name, description=description, strict=strict
    )
