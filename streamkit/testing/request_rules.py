"""What real providers refuse with status 400: the rules of each wire, as a table, each with its source.

A conversation that goes wrong (a call without its result, an id that the vendor does not take) is refused by the real
provider, and by the embedded server, with that provider's error body. The rules can be asked without a server, too::

    assert faults_of("anthropic", body) == []

They judge the conversation that a body holds, not its settings; a body without any conversation breaks none. What is
refused only by some models or in some settings is left out, unless the rule can see them. A body that passes may still
be refused by the vendor; one that fails would be, as far as the source of its rule goes.

A wire's rules stand in the file named after it; what a rule is stands in ``rule``.
"""

from __future__ import annotations

from typing import Any

from streamkit import providers
from streamkit.providers.provider import Provider
from streamkit.providers.request_rule import Rule, Violation

__all__ = ["Violation", "Rule", "validate_request", "list_rules"]


def list_rules(provider: str | Provider) -> tuple[Rule, ...]:
    """The rules of a provider's wire, in the order in which they are asked.

    Raises:
        UnknownProvider: no provider has this name.
    """
    return providers.get(provider).request_rules()


def validate_request(provider: str | Provider, body: Any, *, model: str = "") -> list[Violation]:
    """Every place of a request's body that the provider would refuse; empty where it is legal.

    Args:
        provider: its name, or the object of one of your own.
        body: the body as JSON gives it. Whatever it is, nothing is raised for it.
        model: the model that is asked, where the body does not name it (Gemini, Bedrock).

    Raises:
        UnknownProvider: no provider has this name.
    """
    rules = list_rules(provider)
    if not isinstance(body, dict):
        return [Violation("form", "body", "is no JSON object", rules[0].source)] if rules else []
    name = body.get("model")
    asked = model or (name if isinstance(name, str) else "")
    return [fault for rule in rules for fault in rule.faults(body, asked)]
