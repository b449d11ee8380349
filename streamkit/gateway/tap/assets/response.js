// The response of one exchange, assembled from its events: text, reasoning, calls and the rest, in the order of the wire.
// It changes plain objects and returns the parts that changed; it does not touch the document.

class ResponseParts {
  constructor() {
    this.parts = [];
    this.calls = new Map(); // by canonical id
    this.open = new Map(); // the last part of text of each choice
  }

  // Adds an event; returns the part that changed, or null.
  add(event) {
    const choice = event.choice || 0;
    switch (event.type) {
      case "text":
      case "reasoning":
      case "refusal":
        return this.append(event.type, choice, event.text);
      case "block_ended":
        this.open.delete(choice);
        return null;
      case "tool_call_start":
        return this.call(event.call, choice);
      case "tool_call_delta": {
        const part = this.call(event.call, choice);
        part.text += event.arguments_delta;
        return part;
      }
      case "arguments_restated": {
        const part = this.call(event.call, choice);
        part.text = event.arguments_text;
        return part;
      }
      case "tool_call_ready": {
        const part = this.call(event.call, choice);
        part.state = event.call.state;
        part.text = event.call.arguments_text || part.text;
        return part;
      }
      case "server_tool":
        return this.serverTool(event, choice);
      case "citation":
        return this.push({ kind: "citation", choice, text: JSON.stringify(event.data) });
      case "file":
        return this.push({ kind: "file", choice, text: `${event.media_type || "file"} ${event.url || ""}`.trim() });
      default:
        return null;
    }
  }

  push(part) {
    this.open.delete(part.choice);
    this.parts.push(part);
    return part;
  }

  append(kind, choice, text) {
    let part = this.open.get(choice);
    if (!part || part.kind !== kind) {
      part = this.push({ kind, choice, text: "" });
      this.open.set(choice, part);
    }
    part.text += text;
    return part;
  }

  call(call, choice) {
    let part = this.calls.get(call.id);
    if (!part) {
      part = this.push({ kind: "call", choice, text: "", name: call.name, id: call.id, state: "" });
      this.calls.set(call.id, part);
    }
    return part;
  }

  serverTool(event, choice) {
    const key = `server ${event.id || event.name}`;
    let part = this.calls.get(key);
    if (!part) {
      part = this.push({ kind: "server", choice, text: "", name: event.name, id: event.id || "", state: "" });
      this.calls.set(key, part);
    }
    part.state = event.phase;
    if (event.phase === "arguments" && typeof event.data === "string") {
      part.text += event.data;
    } else if (event.phase === "arguments") {
      part.text = JSON.stringify(event.data);
    } else if (event.phase === "result") {
      part.text += `\n${JSON.stringify(event.data)}`;
    }
    return part;
  }
}
