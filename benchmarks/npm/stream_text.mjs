// Reads streams with the AI SDK (https://ai-sdk.dev) and prints the CPU time of each run, as JSON.
//
// Input, as JSON on stdin: {"provider": "openai_chat" | "anthropic", "streams": [[text, ...], ...], "rounds": number}.
// Output: {"micros": [microseconds of all streams, ...], "parts": number, "version": the version of `ai`}.
//
// The response comes from a `fetch` in memory, one frame in each read. The first runs are not counted: they are compiled.

import { readFileSync } from "node:fs";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { streamText } from "ai";

const WARM_UP_RUNS = 20;
const { provider, streams, rounds } = JSON.parse(readFileSync(0, "utf8"));
const encoder = new TextEncoder();
const responses = streams.map((reads) => reads.map((text) => encoder.encode(text)));
let requests = 0;

async function fetch() {
  const chunks = responses[requests++ % responses.length];
  let next = 0;
  const body = new ReadableStream({
    pull(controller) {
      if (next < chunks.length) controller.enqueue(chunks[next++]);
      else controller.close();
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

const settings = { apiKey: "k", baseURL: "http://127.0.0.1/v1", fetch };
const model =
  provider === "anthropic"
    ? createAnthropic(settings)("m")
    : createOpenAICompatible({ ...settings, name: "benchmark" })("m");

async function readStreams() {
  let parts = 0;
  const fail = (event) => {
    throw event.error;
  };
  for (const _ of responses)
    for await (const _ of streamText({ model, prompt: "Weather?", maxRetries: 0, onError: fail }).fullStream) parts++;
  return parts;
}

const micros = [];
let parts = 0;
for (let run = 0; run < WARM_UP_RUNS + rounds; run++) {
  const before = process.cpuUsage();
  parts = await readStreams();
  const { user, system } = process.cpuUsage(before);
  if (run >= WARM_UP_RUNS) micros.push(user + system);
}
const { version } = JSON.parse(readFileSync(new URL("node_modules/ai/package.json", import.meta.url), "utf8"));
console.log(JSON.stringify({ micros, parts, version }));
