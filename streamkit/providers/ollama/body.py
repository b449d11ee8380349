"""The lines of an Ollama stream as the body of a response that is not streamed, which has the form of one line."""

from __future__ import annotations

from streamkit.providers.ollama.schema import Json

__all__ = ["fold_lines"]


def fold_lines(lines: list[Json]) -> Json:
    """Return the response that the lines build."""
    texts: dict[str, list[str]] = {"content": [], "thinking": []}
    lists: dict[str, list[object]] = {"tool_calls": [], "images": []}
    body: Json = {}
    for line in lines:
        logprobs = [*body.get("logprobs", ()), *line.get("logprobs", ())]
        body |= {**line, "logprobs": logprobs} if logprobs else line
        for name, value in line["message"].items():
            if name in texts:
                texts[name].append(value)
            elif name in lists:
                lists[name] += value
    message: Json = {"role": "assistant", "content": "".join(texts["content"])}
    if texts["thinking"]:
        message["thinking"] = "".join(texts["thinking"])
    return {**body, "message": {**message, **{name: value for name, value in lists.items() if value}}}
