"""The official openai SDK: its accumulated completion or response, as the vendor's example of a tool loop reads it."""

from cases import answer
from openai import OpenAI

MESSAGES = [{"role": "user", "content": "Go."}]


def read(case):
    client = OpenAI(api_key="k", base_url=case["base_url"], max_retries=0)
    if case["provider"] == "openai_responses":
        with client.responses.stream(model="gpt-5", input="Go.") as stream:
            response = stream.until_done().get_final_response()
        items = [item for item in response.output if item.type in ("function_call", "custom_tool_call")]
        calls = [{"name": i.name, "arguments": i.arguments if i.type == "function_call" else i.input} for i in items]
        return {"calls": calls, "text": response.output_text, "finish": response.status}
    with client.chat.completions.stream(model="gpt-5", messages=MESSAGES) as stream:
        choice = stream.get_final_completion().choices[0]
    made = choice.message.tool_calls or []
    calls = [{"id": c.id, "name": c.function.name, "arguments": c.function.arguments} for c in made]
    return {"calls": calls, "text": choice.message.content or "", "finish": choice.finish_reason}


answer(read)
