"""Requests that real providers reject with status 400: the rules of each wire, as a table, each with its source.

The real provider rejects an invalid conversation (a call without its result, an id in an unsupported form), and so does
the embedded server, with that provider's error body. The rules can be applied without a server, too::

    assert validate_request("anthropic", body) == []

They check the conversation in a body, not its settings; a body without any conversation breaks none. A rule that only
some models or settings have is left out, unless it can be decided from the body. A body without violations may still be
rejected by the vendor; one with a violation is rejected according to the source of the rule.

The rules of a wire are in the module named after it.
"""

from __future__ import annotations

from typing import Any

from streamkit import providers
from streamkit.providers.provider import Provider
from streamkit.providers.request_rule import Rule, Violation

__all__ = ["Rule", "Violation", "list_rules", "validate_request"]


def list_rules(provider: str | Provider) -> tuple[Rule, ...]:
    """Return the rules of a provider's wire, in the order in which they are checked.

    Raises:
        UnknownProvider: no provider has this name.
    """
    return providers.get(provider).request_rules()


def validate_request(provider: str | Provider, body: Any, *, model: str = "") -> list[Violation]:
    """Return every place of a request's body that the provider would reject; empty if it is legal.

    Args:
        provider: its name, or the object of a third-party provider.
        body: the decoded JSON body. Nothing is raised for any value.
        model: the requested model, if the body does not name it (Gemini, Bedrock).

    Returns:
        The violations, in the order of the rules.

    Raises:
        UnknownProvider: no provider has this name.
    """
    rules = list_rules(provider)
    if not isinstance(body, dict):
        return [Violation("form", "body", "is not a JSON object", rules[0].source)] if rules else []
    name = body.get("model")
    requested_model = model or (name if isinstance(name, str) else "")
    return [violation for rule in rules for violation in rule.violations(body, requested_model)]
