"""The official google-genai SDK: the calls and the text of each chunk. It has no accumulator."""

from cases import answer
from google import genai


def read(case):
    client = genai.Client(api_key="k", http_options={"base_url": case["base_url"]})
    calls, text, finish = [], "", None
    for chunk in client.models.generate_content_stream(model="gemini-2.5-flash", contents="Go."):
        calls += [{"id": c.id, "name": c.name, "arguments": c.args} for c in chunk.function_calls or []]
        for candidate in (chunk.candidates or [])[:1]:
            parts = (candidate.content and candidate.content.parts) or []
            text += "".join(part.text for part in parts if part.text and not part.thought)
            finish = candidate.finish_reason or finish
    return {"calls": calls, "text": text, "finish": finish}


answer(read)
