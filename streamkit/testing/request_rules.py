"""Validation of requests by the rules that real providers enforce with status 400.

The real provider rejects an invalid conversation (a call without its result, an id in an unsupported form), and so does
the embedded server, with that provider's error body. The rules can also be applied without a server::

    assert validate_request("anthropic", body) == []

They check the conversation in a body, not its settings; a body without a conversation violates none. A rule that only
applies to some models or settings is included only if the body contains them. The vendor may still reject a body
without violations; it rejects one with a violation according to the source of the rule.

The rules of a wire, each with its source, are in ``request_rules.py`` of the provider's package.
"""

from __future__ import annotations

from typing import Any

from streamkit import providers
from streamkit.providers.names import ProviderName
from streamkit.providers.provider import Provider
from streamkit.providers.request_rule import Rule, Violation

__all__ = ["Rule", "Violation", "list_rules", "validate_request"]


def list_rules(provider: ProviderName | str | Provider) -> tuple[Rule, ...]:
    """Return the rules of a provider's wire, in the order in which they are checked.

    Raises:
        UnknownProvider: no provider has this name.
    """
    return providers.get(provider).request_rules()


def validate_request(provider: ProviderName | str | Provider, body: Any, *, model: str = "") -> list[Violation]:
    """Return the violations in a request's body for which the provider would reject it; empty if it is legal.

    Args:
        provider: its name, or a ``Provider`` object.
        body: the decoded JSON body. No value raises an exception.
        model: the requested model, if the body does not contain it, but the path.

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
