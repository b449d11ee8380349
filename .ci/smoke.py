"""Read a stream, run its call and render the next request with nothing but the base install."""

import streamkit


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"{city}: rain"


turn = streamkit.Turn("openai_chat")
turn.feed(
    b'data: {"id":"r","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function",'
    b'"function":{"name":"get_weather","arguments":"{\\"city\\":\\"Troms\\\\u00f8\\"}"}}]},"finish_reason":null}]}\n\n'
    b'data: {"id":"r","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
)
turn.close()
update = streamkit.execute_tool_calls_batched(turn, tools=[get_weather]).run_sync()
if [message["role"] for message in update.messages] != ["assistant", "tool"]:
    raise SystemExit(f"expected an assistant and a tool message, not {update.messages}")
if update.results[0].value != "Tromsø: rain":
    raise SystemExit(f"expected the tool's value, not {update.results}")
print(streamkit.__file__, turn.executable, update.messages[-1])
