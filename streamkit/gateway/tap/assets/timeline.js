// The timeline of the selected exchange: a bar for each part, by seconds, or by rows if a part has no time.
// A bar is drawn at a part of the width in percent, so that it needs no measuring and fits any window.

const BAR = 26; // pixels of a bar's line
const TOP = 24; // of the scale above them
const BAR_LABELS = { waiting: "First byte", server: "Server tool", tools: "Tools" };
const LONGEST_LABEL = 28; // characters, which half of a phone has place for

function shape(tag, attributes, parent) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (parent) parent.append(made);
  return made;
}

class Timeline {
  // Takes what a bar with rows, and that of a later request, opens.
  constructor(openRow, openRequest) {
    this.openRow = openRow;
    this.openRequest = openRequest;
    const panel = byId("panel-timeline"); // in Chromium an SVG element that listens to focusin takes the focus itself
    for (const type of ["pointerover", "focusin"]) {
      panel.addEventListener(type, (event) => this.point(event.target.closest(".bar")));
    }
    panel.addEventListener("click", (event) => this.open(event.target.closest(".bar")));
    this.clear();
  }

  clear() {
    this.bars = [];
    this.pointed = null;
    byId("bars").replaceChildren();
    byId("ticks").replaceChildren();
    for (const id of ["moment", "scale"]) setText(byId(id), "");
  }

  // Draws the parts; a bar that is there grows in place, so that the focus stays.
  show(summary, now) {
    const spans = summary.timeline;
    this.isTimed = spans.length > 0 && spans.every((span) => span.start != null);
    const shown = this.isTimed ? spans : spans.filter((span) => span.first != null);
    // A part that is awaited reaches to this moment.
    const sides = shown.map((span) => (this.isTimed ? [span.start, span.end ?? Math.max(now ?? 0, span.start)] : [span.first, span.last + 1]));
    const total = Math.max(...sides.map(([, end]) => end), this.isTimed ? 0.001 : 1);
    while (this.bars.length > shown.length) this.bars.pop().node.remove();
    shown.forEach((span, index) => this.draw(index, span, sides[index], total));
    const height = TOP + BAR * shown.length + 4;
    byId("timeline").setAttribute("height", height);
    byId("timeline").classList.toggle("hidden", !shown.length);
    this.drawTicks(total, height);
    setText(byId("scale"), this.scale(summary, shown));
    if (!this.pointed) setText(byId("moment"), shown.length ? "Point at a bar, or move with the arrow keys." : "Nothing has come yet.");
    else this.point(this.pointed);
  }

  scale(summary, shown) {
    const parts = [];
    if (shown.length && !this.isTimed) parts.push("By the number of the row: this recording has no times of its parts.");
    const next = summary.timeline.find((span) => span.next != null);
    if (next && !this.isTimed) parts.push(`The results of the calls are in request ${next.next}.`);
    return parts.join(" ");
  }

  draw(index, span, [start, end], total) {
    let bar = this.bars[index];
    if (!bar) {
      const node = shape("g", { class: "bar", tabindex: index ? -1 : 0 }, byId("bars"));
      const y = TOP + BAR * index;
      shape("rect", { class: "line", x: 0, y: y + 1, width: "100%", height: BAR - 2, rx: 4 }, node);
      const fill = shape("rect", { class: "fill", y: y + 5, height: BAR - 10, rx: 2 }, node);
      const edge = shape("rect", { class: "edge", y: y + 5, height: BAR - 10, width: 3, rx: 1 }, node);
      const text = shape("text", { y: y + BAR / 2, "dominant-baseline": "central" }, node);
      bar = this.bars[index] = { node, fill, edge, text };
      node.bar = bar;
    }
    bar.span = span;
    const [x, width] = [(100 * start) / total, (100 * (end - start)) / total];
    bar.fill.setAttribute("x", `${x}%`);
    bar.fill.setAttribute("width", `${width}%`);
    bar.edge.setAttribute("x", `${x}%`);
    // Within the bar and beyond it, or before one that begins in the right half.
    bar.text.setAttribute("x", `${x}%`);
    bar.text.setAttribute("dx", x > 50 ? -6 : 9);
    bar.text.setAttribute("text-anchor", x > 50 ? "end" : "start");
    const kind = BAR_LABELS[span.kind] || LABELS[span.kind] || span.kind;
    const name = span.name || (span.next == null ? "" : `until request ${span.next}`);
    const label = [span.kind === "call" && name ? "" : kind, name].filter(Boolean).join(" ");
    const size = this.isTimed ? seconds(end - start) : `${end - start} ${end - start === 1 ? "row" : "rows"}`;
    setText(bar.text, `${label.length > LONGEST_LABEL ? `${label.slice(0, LONGEST_LABEL)}…` : label} · ${size}`);
    const place = this.isTimed ? `from ${seconds(start)} to ${seconds(end)}` : "";
    const rows = span.first == null ? "" : span.first === span.last ? `row ${span.first}` : `rows ${span.first} to ${span.last}`;
    const state = span.state ? `${name}, ${span.state}` : name;
    const choice = span.choice ? ` (choice ${span.choice})` : "";
    bar.about = `${`${kind} ${state}`.trim()}${choice}: ${[place, this.isTimed ? size : "", rows].filter(Boolean).join(", ")}.`;
    const opens = span.first != null ? " Enter opens its frames." : span.next != null ? " Enter opens that request." : "";
    bar.node.setAttribute("role", opens ? "button" : "img");
    bar.node.setAttribute("aria-label", bar.about + opens);
    bar.about += opens;
    bar.node.setAttribute("class", `bar ${span.kind} ${span.state || ""}`.trim());
  }

  drawTicks(total, height) {
    const rough = total / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const least = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
    const step = this.isTimed ? least : Math.max(1, Math.round(least));
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const ticks = byId("ticks");
    ticks.replaceChildren();
    for (let index = 0; index * step <= total; index += 1) {
      const x = `${(100 * index * step) / total}%`;
      shape("line", { x1: x, x2: x, y1: TOP - 4, y2: height }, ticks);
      const isLast = (index + 0.5) * step > total;
      const text = shape("text", { x, y: 12, "text-anchor": index === 0 ? "start" : isLast ? "end" : "middle" }, ticks);
      setText(text, this.isTimed ? `${(index * step).toFixed(digits)} s` : String(index * step));
    }
  }

  // Shows what a bar is.
  point(node) {
    if (!node) return;
    this.pointed = node;
    setText(byId("moment"), node.bar.about);
  }

  // Moves the focus to another bar; the one that has it is the one that Tab comes to.
  step(by) {
    const current = this.bars.findIndex(({ node }) => node === document.activeElement);
    const next = Math.min(Math.max(current + by, 0), this.bars.length - 1);
    this.bars.forEach(({ node }, index) => node.setAttribute("tabindex", index === next ? 0 : -1));
    if (!this.bars.length) return;
    this.bars[next].node.focus();
    this.bars[next].node.scrollIntoView({ block: "nearest" });
  }

  open(node) {
    if (!node || String(getSelection())) return;
    const { first, next } = node.bar.span;
    if (first != null) this.openRow(first);
    else if (next != null) this.openRequest(next);
  }
}
