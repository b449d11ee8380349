"""The official anthropic SDK: its accumulated message, whose calls run if the stop reason is tool_use (its example)."""

from anthropic import Anthropic
from cases import answer


def read(case):
    client = Anthropic(api_key="k", base_url=case["base_url"], max_retries=0)
    messages = [{"role": "user", "content": "Go."}]
    with client.messages.stream(model="claude-sonnet-4-5", max_tokens=99, messages=messages) as stream:
        message = stream.get_final_message()
    calls = [block for block in message.content if block.type == "tool_use" and message.stop_reason == "tool_use"]
    return {
        "calls": [{"id": call.id, "name": call.name, "arguments": call.input} for call in calls],
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "finish": message.stop_reason,
    }


answer(read)
