// The AI SDK as a client of the gateway: node converse.mjs BASE_URL QUESTION prints the answer of a run with one tool.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

const [baseURL, prompt] = process.argv.slice(2);
const provider = createOpenAICompatible({ name: 'gateway', baseURL, apiKey: 'k' });
const weather = tool({
  description: 'Return the weather of a city.',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `${city}: 4 degrees`,
});
const result = streamText({ model: provider('m'), prompt, tools: { weather }, stopWhen: stepCountIs(5) });
for await (const part of result.fullStream) {
  if (part.type === 'error') throw part.error;
}
process.stdout.write(await result.text);
