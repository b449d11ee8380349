// Reads {name: {version, input, body}} from stdin: the response of a server to an input. A client of that version runs
// each, with its verifier and its schemas. Writes {name: {error, failure, warnings, messages, state}} to stdout.
import * as client0 from "ag-ui-client-0";
import * as client1 from "@ag-ui/client";

let text = "";
for await (const chunk of process.stdin) text += chunk;
const results = {};
let warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = () => {};
for (const [name, { version, input, body }] of Object.entries(JSON.parse(text))) {
  const { HttpAgent } = version === 0 ? client0 : client1;
  const fetch = async () => new Response(body, { headers: { "content-type": "text/event-stream" } });
  const agent = new HttpAgent({ url: "http://host", threadId: input.threadId, initialMessages: input.messages, fetch });
  agent.state = input.state ?? {};
  warnings = [];
  let error = null;
  let failure = null;
  try {
    await agent.runAgent({ runId: input.runId }, {
      onRunErrorEvent: ({ event }) => { failure = event.message; },
      onRunFailed: (failed) => { error = String(failed.error); },
    });
  } catch (thrown) {
    error = String(thrown);
  }
  results[name] = { error, failure, warnings, messages: agent.messages, state: agent.state };
}
process.stdout.write(JSON.stringify(results));
