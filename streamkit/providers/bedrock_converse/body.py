"""The events of a Converse stream as the body of a response that is not streamed.

Wire: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
"""

from __future__ import annotations

from streamkit.json_text import finalize_arguments
from streamkit.providers.bedrock_converse.schema import Json

__all__ = ["fold_events"]


def fold_events(events: list[Json]) -> Json:
    """Return the response that the events build."""
    blocks: dict[int, Json] = {}
    inputs: dict[int, list[str]] = {}
    body: Json = {}
    for event in events:
        ((name, fields),) = event.items()
        index = fields.get("contentBlockIndex", 0)
        if name == "contentBlockStart":
            blocks[index] = {kind: dict(start) for kind, start in fields["start"].items()}
            if "toolUse" in fields["start"]:
                inputs[index] = []
        elif name == "contentBlockDelta":
            _add_delta(blocks.setdefault(index, {}), inputs.get(index), fields["delta"])
        elif name in ("messageStop", "metadata"):
            body |= fields
    for index, parts in inputs.items():
        text = "".join(parts)
        parsed = finalize_arguments(text)
        blocks[index]["toolUse"]["input"] = parsed.arguments if parsed.state == "complete" else text
    return {"output": {"message": {"role": "assistant", "content": [*map(_cited, blocks.values())]}}, **body}


def _add_delta(block: Json, inputs: list[str] | None, delta: Json) -> None:
    for kind, value in delta.items():
        if kind == "text":
            block["text"] = block.get("text", "") + value
        elif kind == "citation":
            block.setdefault("citations", []).append(value)
        elif kind == "toolUse" and inputs is not None:
            inputs.append(value["input"])
        elif kind == "toolResult":
            block["toolResult"]["content"] = value
        elif kind == "reasoningContent" and "redactedContent" not in value:
            reasoning = block.setdefault("reasoningContent", {"reasoningText": {"text": ""}})["reasoningText"]
            for name, text in value.items():
                reasoning[name] = reasoning.get(name, "") + text
        elif kind == "image":
            block["image"] |= value
        else:
            block[kind] = value


def _cited(block: Json) -> Json:
    """Return a text with citations as the member that a complete body has for it."""
    if "citations" not in block:
        return block
    return {"citationsContent": {"content": [{"text": block.get("text", "")}], "citations": block["citations"]}}
