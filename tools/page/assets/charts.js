// Charts along an axis: the time line, and what lies where in memory.

const KIND_COLORS = { run: "kind-a", compile: "kind-a", load: "kind-a", call: "npu", task: "npu", plugin: "npu", cpu_op: "cpu", step: "cpu", host: "cpu",
  transfer: "heat", wait: "note", pass: "kind-b", build: "kind-c", transformation: "kind-c" };

// A chart that scrolls sideways. `draw(width)` makes an SVG of that width; `least` is the width at no zoom, 0 for what there is.
function scrolling(label, draw) {
  const holder = element("div", { class: "scroll", role: "group", "aria-label": label, tabindex: 0 });
  let zoom = 1;
  const redraw = (factor) => {
    const center = (holder.scrollLeft + holder.clientWidth / 2) / Math.max(holder.scrollWidth, 1);
    zoom = Math.min(Math.max(zoom * factor, 1), 4096);
    const room = Math.max(holder.clientWidth, 300) - 2;
    holder.replaceChildren(draw(Math.min(room * zoom, 200000), holder));
    holder.scrollLeft = center * holder.scrollWidth - holder.clientWidth / 2;
  };
  const tools = element("span", { class: "group end" },
    element("button", { "aria-label": "Narrower", onclick: () => redraw(0.5) }, "−"),
    element("button", { "aria-label": "Wider", onclick: () => redraw(2) }, "+"));
  let seen = 0;
  new ResizeObserver(() => {
    if (seen && holder.clientWidth !== seen) redraw(1);
    seen = holder.clientWidth;
  }).observe(holder);
  return { holder, tools, redraw };
}

// Round positions of an axis: about one for each `step` pixels.
function ticksOf(end, width, step, base = 10) {
  const wanted = (end * step) / Math.max(width, 1);
  const power = base ** Math.floor(Math.log(wanted) / Math.log(base));
  const factor = (base === 10 ? [1, 2, 5, 10] : [1, 2]).find((factor) => factor * power >= wanted) ?? base;
  const distance = factor * power;
  const ticks = [];
  for (let i = 0; i * distance <= end * 1.0001 && i < 2000; i++) ticks.push(i * distance);
  return ticks;
}

function barOf(attributes, title, label, width, onpick) {
  const pick = (event) => onpick(event.currentTarget);
  const bar = shape("g", { class: attributes.class, role: "img", "aria-label": title, tabindex: -1, onclick: pick, onfocus: pick },
    shape("title", {}, title), shape("rect", attributes.rect));
  if (width > 34) {
    const text = shortened(label, Math.floor((width - 8) / 6.2));
    bar.append(shape("text", { class: attributes.text, x: attributes.rect.x + 5, y: attributes.rect.y + attributes.rect.height / 2 + 4 }, text));
  }
  return bar;
}

class TimeLine {
  constructor(spans) {
    this.spans = spans;
    this.end = Math.max(...spans.map((span) => span.start_s + span.duration_s), 1e-9);
    this.tracks = [];
    for (const name of new Set(spans.map((span) => span.track))) this.tracks.push({ name, lanes: lanesOf(spans.filter((span) => span.track === name)) });
    this.picked = element("div", { class: "picked quiet", "aria-live": "polite" }, "Select a stretch to see what it is.");
  }

  render() {
    const chart = scrolling("Time line", (width, holder) => this.draw(width, holder));
    this.redraw = chart.redraw;
    const kinds = new Map();
    for (const kind of new Set(this.spans.map((span) => span.kind))) {
      const color = KIND_COLORS[kind] || "cpu";
      kinds.set(color, [...(kinds.get(color) || []), kind.replace("_", " ")]);
    }
    const legend = element("div", { class: "legend" }, ...[...kinds].map(([color, names]) => {
      const swatch = element("i");
      swatch.style.setProperty("--swatch", `var(--${color})`);
      return element("span", {}, swatch, names.join(", "));
    }));
    return [element("div", { class: "tools" }, legend, chart.tools), chart.holder, this.picked];
  }

  draw(width, holder) {
    const scale = (width - 16) / this.end;
    const lanes = this.tracks.reduce((sum, track) => sum + track.lanes.length, 0);
    const height = 30 + this.tracks.length * 22 + lanes * 22;
    const svg = shape("svg", { width, height });
    for (const tick of ticksOf(this.end, width, 110)) {
      const x = Math.round(8 + tick * scale) + 0.5;
      svg.append(shape("line", { class: "axis", x1: x, x2: x, y1: 18, y2: height }), shape("text", { class: "quiet", x: x + 3, y: 13 }, tick ? numberText("seconds", tick) : "0"));
    }
    let y = 24;
    const names = [];
    for (const track of this.tracks) {
      names.push(shape("text", { class: "quiet", x: 8, y: y + 14 }, track.name));
      svg.append(names[names.length - 1]);
      y += 20;
      for (const lane of track.lanes) {
        for (const span of lane) svg.append(this.bar(span, 8 + span.start_s * scale, y, Math.max(span.duration_s * scale, 0.8)));
        y += 22;
      }
      y += 2;
    }
    holder.onscroll = () => names.forEach((name) => name.setAttribute("x", holder.scrollLeft + 8));
    return svg;
  }

  bar(span, x, y, width) {
    const title = `${span.name}: ${numberText("seconds", span.duration_s)}, from ${numberText("seconds", span.start_s)}`;
    const attributes = { class: width > 3 ? "bar apart" : "bar", text: "on", rect: { x, y, width, height: 20, rx: 2, fill: `var(--${KIND_COLORS[span.kind] || "cpu"})` } };
    return barOf(attributes, title, span.name, width, () => {
      const details = Object.entries(span.details).map(([name, value]) => `${name} ${value}`).join(", ");
      this.picked.replaceChildren(element("b", {}, span.name), ` (${span.kind.replace("_", " ")}): ${numberText("seconds", span.duration_s)}, from ${numberText("seconds", span.start_s)}${details ? `; ${details}` : ""}`);
    });
  }
}

// Spans that nest lie below each other.
function lanesOf(spans) {
  const lanes = [];
  for (const span of [...spans].sort((a, b) => a.start_s - b.start_s || b.duration_s - a.duration_s)) {
    let depth = 0;
    while (lanes[depth]?.length && ends(lanes[depth]) > span.start_s + 1e-9) depth++;
    (lanes[depth] ||= []).push(span);
  }
  return lanes;
}

const ends = (lane) => lane[lane.length - 1].start_s + lane[lane.length - 1].duration_s;

class MemoryChart {
  constructor(plan, number) {
    this.plan = plan;
    this.space = plan.spaces[number];
    this.buffers = plan.buffers.filter((buffer) => buffer.space === number && buffer.size > 0);
    this.picked = element("div", { class: "picked quiet", "aria-live": "polite" });
  }

  render() {
    const { space } = this;
    const chart = scrolling(`${space.name} over the steps of the call`, (width, holder) => this.draw(width, holder));
    this.redraw = chart.redraw;
    const room = space.capacity ? ` of ${numberText("bytes", space.capacity)}` : "";
    return element("div", { class: "chart" },
      element("div", { class: "tools" }, element("h3", {}, space.name), element("span", { class: "quiet" }, `${numberText("bytes", space.used)}${room}, ${counted(this.buffers.length, "buffer")}`), chart.tools),
      chart.holder, this.picked);
  }

  draw(width, holder) {
    const { plan, space } = this;
    const steps = Math.max(plan.steps.length, 1);
    const [left, top, tall] = [64, 8, 220];
    const isNear = space.capacity && space.capacity <= space.used * 1.25;
    const most = Math.max(isNear ? space.capacity : space.used, 1);
    const across = (width - left - 12) / steps;
    const down = (bytes) => top + tall - (bytes / most) * tall;
    const svg = shape("svg", { width, height: top + tall + 34 });
    const names = [];
    for (const tick of ticksOf(most, tall, 44, 2)) {
      const y = Math.round(down(tick)) + 0.5;
      names.push(shape("text", { class: "quiet", x: left - 6, y: y + 4, "text-anchor": "end" }, tick ? numberText("bytes", tick) : "0"));
      svg.append(shape("line", { class: "axis", x1: left, x2: width - 12, y1: y, y2: y }), names[names.length - 1]);
    }
    const every = Math.ceil(60 / across);
    for (let step = 0; step < steps; step += every) {
      svg.append(shape("text", { class: "quiet", x: left + (step + 0.5) * across, y: top + tall + 15, "text-anchor": "middle" }, step));
    }
    svg.append(shape("text", { class: "quiet", x: left + (width - left) / 2, y: top + tall + 30, "text-anchor": "middle" }, "step of the call"));
    for (const buffer of this.buffers) svg.append(this.stretch(buffer, left, across, down));
    if (isNear) svg.append(shape("line", { class: "room", x1: left, x2: width - 12, y1: down(space.capacity), y2: down(space.capacity) }));
    holder.onscroll = () => names.forEach((name) => name.setAttribute("x", holder.scrollLeft + left - 6));
    return svg;
  }

  stretch(buffer, left, across, down) {
    const x = left + buffer.first * across;
    const width = (buffer.last - buffer.first + 1) * across;
    const y = down(buffer.offset + buffer.size);
    const height = Math.max(down(buffer.offset) - y, 1);
    const { steps } = this.plan;
    const time = `steps ${buffer.first} to ${buffer.last} (${steps[buffer.first]} to ${steps[buffer.last]})`;
    const title = `${buffer.name}: ${numberText("bytes", buffer.size)} at ${grouped.format(buffer.offset)}, ${time}`;
    const attributes = { class: "bar stretch", rect: { x, y, width, height, rx: 1 } };
    return barOf(attributes, title, buffer.name, height >= 14 ? width : 0, () => this.picked.replaceChildren(title));
  }
}
