"""A list of models as the server of a wire sends it, of the entries that ``Endpoint`` declares.

It must not depend on any provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from streamkit.providers.contract.traits import Endpoint

__all__ = ["describe_models"]


def describe_models(endpoint: Endpoint, names: Sequence[str], wanted: str | None) -> dict[str, Any] | None:
    """Return the list of models, or one of them, in the form of a wire; None if there is no model of that name.

    Args:
        endpoint: the endpoint of the wire.
        names: the names of the models.
        wanted: the model that the client asks for; None for all.
    """
    if wanted is not None:
        return _entry(endpoint.model_entry, wanted) if wanted in names else None
    body: dict[str, Any] = {endpoint.models_field: [_entry(endpoint.model_entry, name) for name in names]}
    if endpoint.models_field == "data":  # Anthropic and OpenAI have the same path; each SDK reads its own fields
        ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
        body = {"object": "list", **body, "has_more": False, **ends}
    return body


def _entry(template: Mapping[str, Any], name: str) -> dict[str, Any]:
    digest = sha256(name.encode("utf-8", "replace")).hexdigest()
    return {
        field: value.format(model=name, digest=digest) if isinstance(value, str) else value
        for field, value in template.items()
    }
