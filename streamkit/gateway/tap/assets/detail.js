// The selected exchange in the document. Everything from a model or a server is set as text, never as markup.

const ROWS_AT_FIRST = 1000; // of frames, so that a long response opens at once
const LABELS = { text: "Text", reasoning: "Reasoning", refusal: "Refusal", call: "Call", server: "Server tool", citation: "Citation", file: "File" };

const byId = (id) => document.getElementById(id);

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Sets the text of an element if it differs, so that a selection in it survives.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function seconds(value) {
  return value == null ? null : `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

function count(value) {
  return value == null ? null : value.toLocaleString("en");
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

class Detail {
  constructor() {
    this.timeline = new Timeline((row) => this.showRow(row), (id) => (location.hash = `#${id}`));
    this.clear(null);
  }

  // Shows another exchange, without its rows.
  clear(id) {
    this.id = id;
    this.response = new ResponseParts();
    this.nodes = new Map(); // of the parts
    this.rows = [];
    this.first = 0; // the first row in the document
    this.follows = false; // the end is kept in view, which that of a finished response is not when it is opened
    for (const name of ["parts", "messages", "frames", "facts"]) byId(name).replaceChildren();
    setText(byId("request"), "");
    setText(byId("count"), "");
    byId("earlier").hidden = true;
    this.timeline.clear();
    this.facts = new Map();
    this.messages = "[]";
    byId("unselected").hidden = id !== null;
    byId("selected").hidden = id === null;
  }

  setRequest(text) {
    if (text !== null && text !== undefined) setText(byId("request"), pretty(text));
  }

  // ------------------------------------------------------------ facts

  setSummary(summary) {
    this.isRunning = isRunning(summary);
    setText(byId("title"), modelName(summary));
    const request = [summary.method, summary.path].filter(Boolean).join(" ");
    const asked = summary.model && summary.model !== modelName(summary) ? `asked for ${summary.model}` : "";
    setText(byId("route"), [wires(summary), asked, request, clock(summary.at)].filter(Boolean).join(" · "));
    const usage = summary.usage || {};
    const state = this.fact("State", summary.state);
    state.className = summary.state;
    this.fact("Status", summary.status == null ? null : String(summary.status));
    this.fact("Duration", seconds(elapsed(summary)));
    this.fact("First byte", seconds(summary.first_byte));
    this.fact("Input", count(usage.input_tokens));
    this.fact("From cache", count(usage.cache_read_tokens));
    this.fact("To cache", count(usage.cache_write_tokens));
    this.fact("Output", count(usage.output_tokens));
    this.fact("Reasoning", count(usage.reasoning_tokens));
    this.fact(summary.is_list_price ? "List price" : "Cost", summary.cost == null ? null : `$${summary.cost}`);
    this.fact("Finish", summary.finish ? summary.finish.reason : null);
    this.fact("Response id", summary.response_id);
    this.setMessages(summary);
    this.timeline.show(summary, elapsed(summary));
  }

  // Shows a fact; one that is not known has no place.
  fact(name, value) {
    let node = this.facts.get(name);
    if (!node) {
      const pair = element("div");
      node = element("dd");
      pair.append(element("dt", "", name), node);
      byId("facts").append(pair);
      this.facts.set(name, node);
    }
    node.parentElement.hidden = value == null;
    setText(node, value ?? "");
    node.title = value ?? "";
    return node;
  }

  setMessages(summary) {
    const lines = [];
    const error = summary.error;
    if (error) lines.push(["error", "Error", [error.kind, error.code, error.message].filter(Boolean).join(": ")]);
    for (const warning of summary.warnings) lines.push(["warning", "Warning", `${warning.code}: ${warning.message}`]);
    for (const change of summary.changes) lines.push(["change", "Changed", change]);
    for (const note of summary.notes) lines.push(["warning", "Note", note]);
    const key = JSON.stringify(lines);
    if (key === this.messages) return;
    this.messages = key;
    byId("messages").replaceChildren(
      ...lines.map(([kind, label, text]) => {
        const line = element("div", `message ${kind}`);
        line.append(element("div", "label", label), element("div", "body", text));
        return line;
      }),
    );
  }

  // ------------------------------------------------------------ rows

  addRows(rows) {
    if (!rows.length) return;
    const follows = this.isLive && (this.follows || this.isRunning);
    this.follows = this.isRunning;
    const changed = new Set();
    for (const row of rows) {
      this.rows.push(row);
      for (const { event } of row.events) {
        const part = this.response.add(event);
        if (part) changed.add(part);
      }
    }
    if (this.rows.length === rows.length) this.first = Math.max(0, rows.length - ROWS_AT_FIRST);
    const panel = byId("panel-frames");
    const isAtEnd = panel.scrollHeight - panel.scrollTop - panel.clientHeight < 40;
    const shown = this.rows.slice(Math.max(this.first, this.rows.length - rows.length));
    byId("frames").append(...shown.map((row) => this.makeRow(row)));
    if (isAtEnd && follows) panel.scrollTop = panel.scrollHeight;
    setText(byId("count"), String(this.rows.length));
    this.showEarlier();
    const response = byId("panel-response");
    const isRead = response.scrollHeight - response.scrollTop - response.clientHeight < 40;
    for (const part of changed) this.showPart(part);
    if (isRead && follows) response.scrollTop = response.scrollHeight;
  }

  showEarlier() {
    const button = byId("earlier");
    button.hidden = this.first === 0;
    if (this.first) setText(button, `Show ${Math.min(this.first, ROWS_AT_FIRST)} earlier rows (${this.first} are hidden)`);
  }

  addEarlier() {
    const start = Math.max(0, this.first - ROWS_AT_FIRST);
    byId("frames").prepend(...this.rows.slice(start, this.first).map((row) => this.makeRow(row)));
    this.first = start;
    this.showEarlier();
  }

  // Shows the frames, with the focus on a row.
  showRow(number) {
    const index = this.rows.findIndex((row) => row.n >= number);
    if (index < 0) return; // it is no longer kept, or not read yet
    showTab("frames");
    while (index < this.first) this.addEarlier();
    const item = byId("frames").children[index - this.first];
    item.focus();
    item.scrollIntoView({ block: "nearest" });
  }

  makeRow(row) {
    const item = element("li", "row");
    item.tabIndex = -1;
    const cells = element("div", "cells");
    const frames = element("div", "mono");
    row.frames.forEach((frame, index) => {
      const line = index ? element("div") : frames;
      if (frame.name) line.append(element("b", "", frame.name));
      line.append(frame.data);
      if (index) frames.append(line);
    });
    const events = element("div", "events mono");
    for (const { line, event } of row.events) {
      const shown = element("div", `event-${event.type}`);
      shown.append(element("b", "", event.type), line);
      events.append(shown);
    }
    cells.append(element("span", "number", String(row.n)), element("span", "number", row.at == null ? "" : row.at.toFixed(3)), frames, events);
    item.append(cells);
    item.row = row;
    return item;
  }

  toggleRow(item) {
    const opened = item.querySelector(".opened");
    if (opened) {
      opened.remove();
      return;
    }
    const both = element("div", "opened");
    const frames = item.row.frames.map((frame) => (frame.name ? `${frame.name}\n` : "") + pretty(frame.data));
    const events = item.row.events.map(({ event }) => JSON.stringify(event, null, 2));
    both.append(element("pre", "", frames.join("\n\n")), element("pre", "", events.join("\n\n") || "no event"));
    item.append(both);
  }

  // ------------------------------------------------------------ parts of the response

  showPart(part) {
    let nodes = this.nodes.get(part);
    if (!nodes) {
      nodes = this.makePart(part);
      this.nodes.set(part, nodes);
    }
    const { text, state } = nodes;
    if (part.text.startsWith(text.data)) {
      if (part.text.length > text.data.length) text.appendData(part.text.slice(text.data.length));
    } else {
      text.data = part.text;
    }
    if (state) {
      setText(state, part.state || "streaming");
      state.className = `state ${part.state}`;
    }
  }

  makePart(part) {
    const section = element("section", `part ${part.kind}`);
    const choice = part.choice ? ` (choice ${part.choice})` : "";
    const content = element("div");
    const body = element(part.name === undefined ? "div" : "pre", "body");
    const text = document.createTextNode("");
    let state = null;
    body.append(text);
    if (part.name !== undefined) {
      const title = element("div", "title");
      state = element("span", "state");
      title.append(element("strong", "mono", part.name), state, element("code", "", part.id));
      content.append(title);
    }
    content.append(body);
    section.append(element("h3", "label", LABELS[part.kind] + choice), content);
    byId("parts").append(section);
    return { text, state };
  }
}
