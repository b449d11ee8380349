"""A client's request for an upstream that speaks its dialect: the client's body with the gateway's own fields.

Its fields, parts and their order stay as they came, also those that nobody knows yet. What changes is found in neutral
form: the request is rendered once as the client has sent it and once as the upstream must get it, and what differs
between these two is changed in the body (docs/rules.md, "Requests").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamkit.history.repair import HistoryCheck
from streamkit.providers.provider import Provider
from streamkit.providers.requests.request import Request
from streamkit.values.request_changes import ChangeList

__all__ = ["pass_request"]

Json = dict[str, Any]
_NOTHING = object()  # where the body has no such value
_FARTHEST = 8  # items of a list that may be left out or inserted in a row


def pass_request(
    body: Json,
    given: Request,
    wanted: Request,
    render: Callable[..., Json],
    model: str,
    provider: Provider,
    changes: ChangeList,
) -> Json:
    """Return the body of a client for an upstream of its dialect.

    Args:
        body: the body of the client.
        given: the same in neutral form.
        wanted: what the upstream gets.
        render: returns the body of a request for the upstream, for (request, repair, settings, changes).
        model: the name of the model at the upstream.
        provider: the upstream's.
        changes: the sentences for what ``given`` lacks of the body; it has those for what the upstream does not get.
    """
    is_regular = HistoryCheck().accepts(wanted.contents, is_end=True)
    report = ChangeList()
    before = after = render(wanted, settings={"model": model}, changes=report)
    if wanted is not given or not is_regular or model != given.settings.model:
        before = render(given, repair=False, settings=None, changes=[])
    field = provider.traits.messages_field
    messages, known = body.get(field), before.get(field, [])
    is_comparable = not isinstance(messages, list) or len(messages) == len(known)
    if (
        isinstance(messages, list)
        and is_comparable
        and (lost := provider.call_ids(messages) - provider.call_ids(known))
    ):
        # Ids that the upstream would refuse, of calls that another one has made.
        body = {**body, field: [known[at] if _has(each, lost) else each for at, each in enumerate(messages)]}
    applied: Json = _apply(body, before, after)
    # What is not in the upstream's form is refused, unless it asks for nothing. Google takes names in two spellings.
    names = {name.replace("_", "").lower() for name in after}
    passed = {name: value for name, value in applied.items() if name.replace("_", "").lower() in names or not value}
    if not is_comparable:
        passed[field] = after[field]  # the upstream would refuse them as they are
    else:
        changes.clear()
    changes += report
    if provider.traits.stream_usage:  # which clients need not ask for
        options = passed.get("stream_options")
        passed["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    return passed


def _apply(value: Any, before: Any, after: Any) -> Any:
    """Return a value with the differences between two others that were made of it."""
    if before is after or before == after:
        return after if value is _NOTHING else value
    if isinstance(value, dict) and isinstance(before, dict) and isinstance(after, dict):
        kept = {name: each for name, each in value.items() if name in after or name not in before}
        for name, each in after.items():
            if name not in before or before[name] != each:
                kept[name] = _apply(value.get(name, _NOTHING), before.get(name, _NOTHING), each)
        return kept
    if isinstance(value, list) and isinstance(before, list) and isinstance(after, list) and len(value) == len(before):
        return _apply_to_list(value, before, after)
    return after


def _apply_to_list(value: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    """Return a list with the items that were inserted, left out or changed between two others.

    Items that stayed are those of the value at every place, so that the beginning of a conversation keeps its form.
    """
    result: list[Any] = []
    at = 0
    for place, item in enumerate(after):
        ahead = range(at, min(at + _FARTHEST, len(before)))
        found = next((other for other in ahead if before[other] == item), None)
        if found is not None:
            result.append(value[found])
            at = found + 1
        elif ahead and _kind(before[at]) == _kind(item) and before[at] not in after[place + 1 : place + _FARTHEST]:
            result.append(_apply(value[at], before[at], item))
            at += 1
        else:
            result.append(item)
    return result


def _has(value: Any, texts: set[str]) -> bool:
    """Return True if one of the texts is a value within another one."""
    if isinstance(value, (list, dict)):
        return any(_has(each, texts) for each in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and value in texts


def _kind(item: Any) -> Any:
    return (item.get("role"), item.get("type")) if isinstance(item, dict) else type(item)
