"""The events of a Cohere stream as the body of a response that is not streamed.

Wire: https://docs.cohere.com/v2/reference/chat
"""

from __future__ import annotations

from streamkit.providers.cohere.schema import Json

__all__ = ["fold_events"]


def fold_events(events: list[Json]) -> Json:
    """Return the response that the events build."""
    contents: list[Json] = []
    calls: list[Json] = []
    citations: list[Json] = []
    plan: list[str] = []
    body: Json = {}
    for event in events:
        message = event.get("delta", {}).get("message", {})
        kind = event["type"]
        if kind == "message-start":
            body["id"] = event["id"]
        elif kind == "content-start":
            contents.append(dict(message["content"]))
        elif kind == "content-delta":
            for name, text in message["content"].items():
                contents[-1][name] += text
            if "logprobs" in event:
                body["logprobs"] = [*body.get("logprobs", ()), event["logprobs"]]
        elif kind == "tool-plan-delta":
            plan.append(message["tool_plan"])
        elif kind == "tool-call-start":
            call = message["tool_calls"]
            calls.append({**call, "function": dict(call["function"])})
        elif kind == "tool-call-delta":
            calls[-1]["function"]["arguments"] += message["tool_calls"]["function"]["arguments"]
        elif kind == "citation-start":
            citations.append(message["citations"])
        elif kind == "message-end":
            body |= event["delta"]
    message = {"role": "assistant"}
    fields = {"content": contents, "tool_plan": "".join(plan), "tool_calls": calls, "citations": citations}
    return {**body, "message": {**message, **{name: value for name, value in fields.items() if value}}}
