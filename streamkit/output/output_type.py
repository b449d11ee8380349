"""The type of a structured output: its JSON schema for the provider, and the validation of a model's JSON.

It must not depend on a provider or a stream. How a schema is written into a request is decided by the providers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Generic, TypeVar, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import from_json

from streamkit.errors import InvalidOutput, UsageError
from streamkit.tools.function import JsonSchemaGenerator, describe_error, without_titles
from streamkit.tools.json_schema import find_problems, short_json
from streamkit.tools.placeholder_nulls import drop_placeholder_nulls
from streamkit.values.schema_references import resolve_reference

__all__ = ["OUTPUT_TOOL", "OutputType"]

T = TypeVar("T")

#: The tool that a request makes the model call where the provider has no field for the schema of the output.
OUTPUT_TOOL = "final_output"
_ILLEGAL_IN_NAME = re.compile("[^a-zA-Z0-9_-]+")


class OutputType(Generic[T]):
    """What a model's output must be.

    Args:
        output: a pydantic model, any other type that pydantic can validate, a ``TypeAdapter``, or a JSON schema.

    Attributes:
        name: a name for the provider, of at most 64 letters, digits, ``_`` and ``-``.
        description: what the output is, for the model: the docstring of the class, or the schema's ``description``.
        schema: its JSON schema.
        annotation: the type; ``Any`` of a JSON schema or a ``TypeAdapter``.

    Raises:
        UsageError: pydantic cannot validate the type, or it has no JSON schema.
    """

    def __init__(self, output: Any) -> None:
        self.annotation: Any = Any
        self._adapter: TypeAdapter[T] | None = None
        if isinstance(output, Mapping):
            self.schema = dict(output)
        else:
            self._adapter, self.schema = _read_type(output)
            self.annotation = Any if isinstance(output, TypeAdapter) else output
        title = self.schema.get("title") or getattr(output, "__name__", None) or "output"
        if get_origin(output) is not None:
            title = "output"
        self.name = _ILLEGAL_IN_NAME.sub("_", str(title))[:64].strip("_") or "output"
        description = self.schema.get("description")
        self.description = description if isinstance(description, str) else ""
        if self._adapter is not None:
            self.schema = without_titles(self.schema)
        reference = self.schema.get("$ref")
        if isinstance(reference, str) and (target := resolve_reference(reference, self.schema)):
            self.schema = {**target, **self.schema}  # of a model that refers to itself; targets want an object there
            del self.schema["$ref"]

    def validate_json(self, text: str) -> T:
        """Return the value of a JSON text.

        Raises:
            InvalidOutput: the text is not JSON, or its value does not fit; the message is for the model.
        """
        try:
            data = from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise InvalidOutput(f"the output is not valid JSON: {error}", text) from None
        if "null" in text:  # a strict mode without optional properties makes the model write null for absent ones
            cleaned = drop_placeholder_nulls(data, self.schema, self.schema)
            if cleaned != data:
                data, text = cleaned, json.dumps(cleaned)
        if self._adapter is None:
            problems = find_problems(data, self.schema)
            if not problems:
                value: T = data
                return value
        else:
            try:
                return self._adapter.validate_json(text)
            except ValidationError as error:
                problems = [describe_error(dict(each), self.schema, "the output") for each in error.errors()]
        reasons = "; ".join(problem.replace("the arguments was", "the output was", 1) for problem in problems)
        raise InvalidOutput(f"the output does not fit {self.name}: {reasons}", text)


def _read_type(output: Any) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    try:
        adapter = output if isinstance(output, TypeAdapter) else TypeAdapter(output)
        return adapter, adapter.json_schema(schema_generator=JsonSchemaGenerator)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError, NameError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"output must be a pydantic model, a type that pydantic can validate, or a JSON schema, not "
            f"{short_json(output)}: {reason}"
        ) from error
