"""The check of a request by the rules of its provider: what real providers refuse with status 400 or 422.

The real provider rejects an invalid request (a call without its result, an unknown field), and so does the embedded
server, with that provider's error body. The rules can also be applied without a server::

    assert validate_request("anthropic", body) == []

They check the conversation in a body, and its fields, types and limits with ``complete``; without it, a body without a
conversation violates none. A rule that only applies to some models or settings is included only if the body contains
them. The vendor may still reject a body without violations; it rejects one with a violation according to the source of
the rule. ``Traits.request_rules`` names the module of a wire, whose ``build_rules(traits)`` returns the rules of the
conversation; those of the body are data (`body_rules`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from streamkit import providers
from streamkit.providers.provider import Provider
from streamkit.providers.registry import ProviderName
from streamkit.testing.rules.body_rules import build_body_rules
from streamkit.testing.rules.rule import Rule, Violation

__all__ = ["list_rules", "validate_request"]


def list_rules(provider: ProviderName | str | Provider, *, complete: bool = False) -> tuple[Rule, ...]:
    """Return the rules of a provider's wire, in the order in which they are checked.

    Args:
        provider: its name, or a ``Provider`` object.
        complete: whether to return the rules for the whole body as well, before those for the conversation.

    Raises:
        UnknownProvider: no provider has this name.
    """
    traits = providers.get(provider).traits
    rules: tuple[Rule, ...] = ()
    if traits.request_rules is not None:
        rules = import_module(traits.request_rules).build_rules(traits)
    return (*build_body_rules(traits.name), *rules) if complete else rules


def validate_request(
    provider: ProviderName | str | Provider, body: Any, *, model: str = "", complete: bool = False
) -> list[Violation]:
    """Return the violations in a request's body for which the provider would reject it; empty if it is legal.

    Args:
        provider: its name, or a ``Provider`` object.
        body: the decoded JSON body. No value raises an exception.
        model: the requested model, if the body does not contain it, but the path.
        complete: whether to check the whole body (fields, types, limits, tools), as a strict server does, and not its
            conversation alone.

    Returns:
        The violations, in the order of the rules.

    Raises:
        UnknownProvider: no provider has this name.
    """
    rules = list_rules(provider, complete=complete)
    if not isinstance(body, dict):
        return [Violation("form", "body", "is not a JSON object", rules[0].source)] if rules else []
    name = body.get("model")
    requested_model = model or (name if isinstance(name, str) else "")
    return [violation for rule in rules for violation in rule.violations(body, requested_model)]
