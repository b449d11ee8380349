// The npm package ai (Vercel AI SDK) with @ai-sdk/openai-compatible: the calls whose tools it runs while it streams.
import { createInterface } from "node:readline";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { jsonSchema, streamText, tool } from "ai";

async function read({ base_url, tools }) {
  const calls = [];
  let error = null;
  const execute = (name) => (input, { toolCallId }) => void calls.push({ id: toolCallId, name, arguments: input });
  const inputSchema = jsonSchema({ type: "object" });
  const result = streamText({
    model: createOpenAICompatible({ name: "m", baseURL: base_url, apiKey: "k" }).chatModel("m"),
    prompt: "Go.",
    maxRetries: 0,
    tools: Object.fromEntries(tools.map((name) => [name, tool({ inputSchema, execute: execute(name) })])),
    onError: (event) => void (error = event.error),
  });
  await result.consumeStream({ onError: (cause) => void (error = cause) });
  if (error) return { calls, error: String(error) };
  const finish = await result.finishReason;
  return { calls, text: await result.text, finish: finish === "other" || finish === "unknown" ? null : finish };
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const result = await read(request).catch((error) => ({ error: String(error) }));
  console.log(JSON.stringify({ case: request.case, ...result }));
}
