// The page: the list of requests, the connection to the tap, the keyboard.

const embedded = JSON.parse(byId("data").textContent);
const TABS = ["response", "timeline", "frames", "request"];
const summaries = new Map(); // by number
const items = new Map(); // the links of the list
const detail = new Detail();
let source = null;
let instance = null; // of the tap whose requests are shown
let clockOffset = 0; // of the server's clock to this one's, in seconds
detail.isLive = embedded === null;

// The time of a request; a recording may have none.
function clock(at) {
  return at ? new Date(at * 1000).toLocaleTimeString("en-GB") : "";
}

function wires(summary) {
  const { client, provider } = summary;
  return client && provider && client !== provider ? `${client} → ${provider}` : provider || client || "";
}

function modelName(summary) {
  return summary.upstream_model || summary.model || summary.served_model || summary.path;
}

function isRunning(summary) {
  return summary.state === "waiting" || summary.state === "streaming";
}

function elapsed(summary) {
  return isRunning(summary) && detail.isLive ? Math.max(summary.seconds, Date.now() / 1000 - clockOffset - summary.at) : summary.seconds;
}

// ---------------------------------------------------------------- the list

function showItem(summary) {
  const list = byId("list");
  let item = items.get(summary.id);
  if (!item) {
    const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    item = element("a");
    item.href = `#${summary.id}`;
    item.parts = {};
    for (const names of [["model", "state"], ["route", "figures"]]) {
      const pair = element("div", names[0] === "route" ? "second" : "");
      for (const name of names) {
        item.parts[name] = element("span", name === "model" ? "model" : names[1] === name ? "end" : "");
        pair.append(item.parts[name]);
      }
      item.append(pair);
    }
    const line = element("li");
    line.append(item);
    byId("requests").append(line);
    items.set(summary.id, item);
    byId("empty").hidden = true;
    if (isAtEnd) list.scrollTop = list.scrollHeight;
  }
  const { model, state, route, figures } = item.parts;
  const usage = summary.usage || {};
  setText(model, modelName(summary));
  const isAnswered = summary.state === "finished" || (summary.state === "failed" && summary.status >= 400);
  const duration = elapsed(summary) == null ? "" : seconds(elapsed(summary));
  setText(state, [(isAnswered && summary.status) || summary.state, duration].filter(Boolean).join(" · "));
  state.className = `end ${summary.state}`;
  setText(route, [clock(summary.at), wires(summary)].filter(Boolean).join(" · "));
  const tokens = [["in", usage.input_tokens], ["out", usage.output_tokens]].filter(([, figure]) => figure != null);
  setText(figures, [...tokens.map(([name, figure]) => `${count(figure)} ${name}`), summary.cost == null ? "" : `$${summary.cost}`].filter(Boolean).join(" · "));
}

function takeSummary(summary) {
  summaries.set(summary.id, summary);
  showItem(summary);
  if (summary.id === detail.id) detail.setSummary(summary);
}

function removeOldest(dropped) {
  if (!dropped) return;
  const line = byId("dropped");
  line.hidden = false;
  setText(line, `${dropped} older ${dropped === 1 ? "request is" : "requests are"} no longer kept.`);
  for (const id of [...items.keys()].filter((key) => key <= dropped && key !== detail.id)) {
    items.get(id).parentElement.remove();
    items.delete(id);
    summaries.delete(id);
  }
}

// Removes all requests: those of a tap that was started again have the same numbers.
function startAnew() {
  for (const item of items.values()) item.parentElement.remove();
  items.clear();
  summaries.clear();
  const line = byId("dropped");
  line.hidden = false;
  setText(line, "The tap was started again. The requests before that are no longer kept.");
  history.replaceState(null, "", location.pathname);
  detail.clear(null);
  document.body.classList.remove("has-detail");
}

// ---------------------------------------------------------------- selection

function select(id) {
  if (detail.id === id) return;
  detail.clear(id);
  for (const [key, item] of items) item.setAttribute("aria-current", String(key === id));
  document.body.classList.toggle("has-detail", id !== null);
  if (id === null) return;
  byId("open").href = `/exchanges/${id}.html`;
  byId("download").href = `/exchanges/${id}.html?download`;
  if (summaries.has(id)) detail.setSummary(summaries.get(id));
  if (embedded === null) {
    connect();
    return;
  }
  const found = embedded.exchanges.find((exchange) => exchange.summary.id === id);
  detail.setRequest(found.request);
  detail.addRows(found.rows);
}

function selectFromAddress() {
  const id = Number(location.hash.slice(1));
  if (location.hash === "#detail") return;
  if (summaries.has(id)) {
    select(id);
    byId("detail").focus();
  } else if (!location.hash) {
    select(null);
  }
}

function back() {
  const item = items.get(detail.id);
  if (window.matchMedia("(max-width: 760px)").matches && items.size > 1) {
    history.replaceState(null, "", location.pathname);
    select(null);
  }
  if (item) item.focus();
}

function showTab(name) {
  for (const tab of TABS) {
    const isShown = tab === name;
    byId(`panel-${tab}`).hidden = !isShown;
    byId(`tab-${tab}`).setAttribute("aria-selected", String(isShown));
    byId(`tab-${tab}`).tabIndex = isShown ? 0 : -1;
  }
}

// ---------------------------------------------------------------- the connection

function connect() {
  if (source) source.close();
  source = new EventSource(detail.id === null ? "/events" : `/events?exchange=${detail.id}`);
  source.onmessage = (message) => {
    const data = JSON.parse(message.data);
    setConnection(true);
    const [sender] = message.lastEventId.split(".");
    if (instance !== null && instance !== sender) {
      instance = sender;
      startAnew();
      connect();
      return;
    }
    instance = sender;
    if (data.exchange !== detail.id) return;
    clockOffset = Date.now() / 1000 - data.time;
    if (data.reset && data.exchange !== null) {
      detail.clear(data.exchange);
      if (summaries.has(data.exchange)) detail.setSummary(summaries.get(data.exchange));
    }
    data.summaries.forEach(takeSummary);
    removeOldest(data.dropped);
    detail.setRequest(data.request);
    detail.addRows(data.rows);
    byId("empty").hidden = items.size > 0;
    if (detail.id === null && !location.hash && items.size === 1 && !window.matchMedia("(max-width: 760px)").matches) {
      select(data.summaries[0].id);
    } else if (detail.id === null && location.hash) {
      selectFromAddress();
    }
  };
  source.onerror = () => setConnection(false);
}

function setConnection(isOpen) {
  const line = byId("connection");
  setText(line, isOpen ? "live" : "The tap does not answer. This page keeps trying.");
  line.classList.toggle("lost", !isOpen);
}

// ---------------------------------------------------------------- the keyboard

function step(by) {
  if (document.activeElement.closest("#panel-timeline, #tab-timeline")) {
    detail.timeline.step(by);
    return;
  }
  const row = document.activeElement.closest(".row");
  const isInFrames = row || document.activeElement.id === "panel-frames" || document.activeElement.id === "tab-frames";
  const all = isInFrames ? [...document.querySelectorAll("#frames > .row")] : [...items.values()];
  if (!all.length) return;
  const current = isInFrames ? all.indexOf(row) : all.findIndex((item) => item === document.activeElement);
  const selected = current < 0 && !isInFrames && items.has(detail.id) ? all.indexOf(items.get(detail.id)) : current;
  const next = Math.min(Math.max(selected < 0 && by < 0 ? all.length - 1 : selected + by, 0), all.length - 1);
  all[next].focus();
  all[next].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const active = document.activeElement;
  const isMovable = active.closest("#list, .row, .bar");
  const tab = active.getAttribute("role") === "tab" ? TABS.indexOf(active.id.slice(4)) : -1;
  if (event.key === "j" || (event.key === "ArrowDown" && isMovable)) step(1);
  else if (event.key === "k" || (event.key === "ArrowUp" && isMovable)) step(-1);
  else if (event.key === "Escape") {
    if (active.closest(".row")) byId("panel-frames").focus();
    else if (active.closest(".bar")) byId("panel-timeline").focus();
    else back();
  } else if (event.key === "Enter" && active.classList.contains("row")) detail.toggleRow(active);
  else if ((event.key === "Enter" || event.key === " ") && active.closest(".bar")) detail.timeline.open(active);
  else if (["1", "2", "3", "4"].includes(event.key) && detail.id !== null) {
    showTab(TABS[event.key - 1]);
    byId(`panel-${TABS[event.key - 1]}`).focus();
  } else if (tab >= 0 && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
    const next = TABS[(tab + (event.key === "ArrowRight" ? 1 : TABS.length - 1)) % TABS.length];
    showTab(next);
    byId(`tab-${next}`).focus();
  } else return;
  event.preventDefault();
});

byId("frames").addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (row && !event.target.closest(".opened") && !String(getSelection())) detail.toggleRow(row);
});
byId("requests").addEventListener("click", (event) => {
  // A link to the address of now causes no hashchange.
  const link = event.target.closest("a");
  if (link && link.hash === location.hash) byId("detail").focus();
});
byId("earlier").addEventListener("click", () => detail.addEarlier());
byId("back").addEventListener("click", back);
for (const tab of TABS) byId(`tab-${tab}`).addEventListener("click", () => showTab(tab));
window.addEventListener("hashchange", selectFromAddress);

showTab("response");
if (embedded === null) {
  byId("empty").hidden = false;
  setText(byId("connection"), "connecting");
  connect();
  setInterval(() => summaries.forEach((summary) => isRunning(summary) && takeSummary(summary)), 250);
} else {
  document.body.classList.add("report");
  document.body.classList.toggle("single", embedded.exchanges.length === 1);
  setText(byId("kind"), "report");
  document.title = "streamkit report";
  embedded.exchanges.forEach((exchange) => takeSummary(exchange.summary));
  setText(byId("connection"), `${items.size} ${items.size === 1 ? "response" : "responses"}`);
  selectFromAddress();
  if (detail.id === null && items.size) select([...items.keys()][0]);
}
