// The graph: nodes in groups that open, coloured by where they run or by a measure.

const NODE = { width: 190, height: 46, title: 24, inner: 16, head: 34 };

class GraphView {
  constructor(page, graph) {
    this.page = page;
    this.graph = graph;
    this.open = new Set();
    this.measure = null;
    this.withConstants = false;
    this.scale = 1;
    this.selected = null;
    this.chosen = 0;
    this.subgraphs = graph.map((subgraph, index) => new Hierarchy(subgraph, index));
    this.holder = element("div", { class: "scroll", tabindex: -1 });
    this.details = element("div", { class: "details", "aria-live": "polite" });
  }

  get hierarchy() {
    return this.subgraphs[this.chosen];
  }

  // Everything of the section.
  render() {
    for (const hierarchy of this.subgraphs) {
      const top = hierarchy.children(-1).filter((item) => item.members);
      if (top.length === 1) this.open.add(top[0].id);
    }
    const first = this.page.measures[0];
    if (first) this.measure = first;
    const tools = element("div", { class: "tools" }, this.subgraphTool(), this.measureTool(), this.constantsTool(),
      this.searchTool(), this.groupTools(), this.zoomTools());
    this.legend = element("div", { class: "legend" });
    const parts = [tools, element("div", { class: "graph" }, this.holder, this.details), this.legend];
    this.draw();
    this.describe(null);
    return parts;
  }

  subgraphTool() {
    if (this.subgraphs.length < 2) return null;
    const choose = () => { this.chosen = Number(this.choice.value); this.selected = null; this.describe(null); this.draw(); };
    this.choice = element("select", { onchange: choose }, ...this.subgraphs.map((one, index) => element("option", { value: index }, one.name)));
    return element("label", {}, "Graph of", this.choice);
  }

  measureTool() {
    if (!this.page.measures.length) return null;
    const select = element("select", { onchange: () => { this.measure = this.page.measures[select.value] || null; this.draw(); } },
      ...this.page.measures.map((one, index) => element("option", { value: index }, one.name)),
      element("option", { value: -1 }, "nothing"));
    return element("label", {}, "Show", select);
  }

  constantsTool() {
    if (!this.subgraphs.some((one) => one.nodes.some((node) => node.is_constant))) return null;
    this.constants = element("input", { type: "checkbox", onchange: () => { this.withConstants = this.constants.checked; this.draw(); } });
    return element("label", {}, this.constants, "Ops on constants");
  }

  searchTool() {
    const input = element("input", { type: "search", placeholder: "Find an op or tensor", "aria-label": "Find an op or tensor",
      onkeydown: (event) => { if (event.key === "Enter") this.find(input.value.trim().toLowerCase()); } });
    return input;
  }

  groupTools() {
    if (!this.subgraphs.some((one) => one.groups.length)) return null;
    const openAll = () => { this.hierarchy.groups.forEach((group) => this.open.add(group.id)); this.draw(); };
    const closeAll = () => { this.open.clear(); this.draw(); };
    return element("span", { class: "group" }, element("button", { onclick: openAll }, "Open all"),
      element("button", { onclick: closeAll }, "Close all"));
  }

  zoomTools() {
    return element("span", { class: "group end" },
      element("button", { "aria-label": "Smaller", onclick: () => this.zoom(this.scale / 1.25) }, "−"),
      element("button", { "aria-label": "Larger", onclick: () => this.zoom(this.scale * 1.25) }, "+"),
      element("button", { onclick: () => this.zoom(Math.min(1, (this.holder.clientWidth - 2) / this.size.width)) }, "Fit"));
  }

  zoom(scale) {
    const { holder } = this;
    const before = this.scale;
    this.scale = Math.min(Math.max(scale, 0.05), 3);
    const x = (holder.scrollLeft + holder.clientWidth / 2) / before;
    const y = (holder.scrollTop + holder.clientHeight / 2) / before;
    this.resize();
    holder.scrollLeft = x * this.scale - holder.clientWidth / 2;
    holder.scrollTop = y * this.scale - holder.clientHeight / 2;
  }

  resize() {
    this.svg.setAttribute("width", this.size.width * this.scale);
    this.svg.setAttribute("height", this.size.height * this.scale);
  }

  // Lays out and draws what is visible; what `anchor` names stays where it is on the screen.
  draw(anchor) {
    const before = anchor && this.drawn?.get(anchor)?.getBoundingClientRect();
    const tree = new VisibleTree(this.hierarchy, this.open, this.withConstants);
    const root = tree.layOut();
    const margin = 24;
    this.tree = tree;
    this.size = { width: root.width + 2 * margin, height: root.height + 2 * margin };
    this.svg = shape("svg", { viewBox: `0 0 ${Math.ceil(this.size.width)} ${Math.ceil(this.size.height)}`, role: "group",
      "aria-label": "Graph of the model. Arrow keys go along its edges.", onkeydown: (event) => this.step(event) }, arrowHead());
    this.drawn = new Map();
    this.edges = [];
    this.paint(root, margin, margin, this.svg);
    this.holder.replaceChildren(this.svg);
    this.resize();
    this.mark();
    this.drawLegend();
    if (!anchor) this.holder.scrollLeft = (this.size.width * this.scale - this.holder.clientWidth) / 2;
    const after = before && this.drawn.get(anchor)?.getBoundingClientRect();
    if (after) {
      this.holder.scrollLeft += after.left + after.width / 2 - before.left - before.width / 2;
      this.holder.scrollTop += after.top - before.top;
    }
  }

  paint(container, left, top, parent) {
    for (const edge of container.edges) {
      const line = shape("path", { class: "edge", d: curve(edge.points.map(([x, y]) => [x + left, y + top])), "marker-end": "url(#arrow)" });
      this.edges.push({ line, from: edge.from, to: edge.to });
      parent.append(line);
    }
    for (const box of container.boxes) {
      if (box.port) continue;
      const x = Math.round(left + box.x);
      const y = Math.round(top + box.y);
      if (box.inside) this.paintOpen(box, x, y, parent);
      else parent.append(this.paintNode(box, x, y));
    }
  }

  paintOpen(box, x, y, parent) {
    const kind = box.item.call ? "open-box npu" : "open-box";
    const close = this.makeNode(box.item, "node", `Close ${box.item.title}`,
      shape("rect", { class: kind, x, y, width: box.width, height: box.height, rx: 8 }),
      shape("text", { class: "name", x: x + 12, y: y + 21 }, `▾ ${box.item.title}`),
      shape("text", { class: "quiet", x: x + box.width - 12, y: y + 21, "text-anchor": "end" }, this.groupText(box.item)));
    parent.append(close);
    this.paint(box.inside, x + NODE.inner, y + NODE.head, parent);
  }

  groupText(item) {
    return counted(item.ops.length, "op");
  }

  makeNode(item, kind, label, ...children) {
    const node = shape("g", { class: kind, tabindex: -1, role: "button", "aria-label": label,
      onclick: () => this.activate(item), onfocus: () => this.select(item),
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.activate(item); } } }, ...children);
    this.drawn.set(item.id, node);
    return node;
  }

  paintNode(box, x, y) {
    const { item, width, height } = box;
    const value = this.valueOf(item);
    const flags = item.ops.filter((op) => this.measure?.flagged[op.id]);
    const shared = item.ops.length ? item.ops.filter((op) => op.call).length / item.ops.length : 0;
    const kind = ["node", shared === 1 && "npu", item.kind !== "op" && !item.members && "end", flags.length && "flagged"].filter(Boolean).join(" ");
    const valueText = value == null ? "" : numberText(this.measure.quantity, value);
    const under = item.members ? counted(item.ops.length, "op") : shortened(this.typeOf(item), valueText ? 15 : 24);
    const parts = [shape("title", {}, `${item.title}\n${item.members ? item.about : this.typeOf(item)}`)];
    if (item.members) parts.push(shape("rect", { class: "back", x: x + 4, y: y + 4, width, height, rx: 7 }));
    parts.push(shape("rect", { class: "box", x, y, width, height, rx: 7 }));
    if (item.ops.length) parts.push(...stripes(x, y, height, shared));
    parts.push(shape("text", { class: "name", x: x + 14, y: y + 19 }, (item.members ? "▸ " : "") + shortened(item.title, 22)),
      shape("text", { class: "quiet", x: x + 14, y: y + 35 }, under));
    if (valueText) {
      parts.push(shape("text", { class: "value", x: x + width - 10, y: y + 35, "text-anchor": "end" }, valueText));
      const share = this.greatest() > 0 ? Math.max(value, 0) / this.greatest() : 0;
      parts.push(shape("rect", { class: "heat", x: x + 12, y: y + height - 5, height: 3, rx: 1.5, width: Math.max((width - 22) * Math.min(share, 1), 1) }));
    }
    const label = [item.title, item.members ? `group of ${counted(item.ops.length, "op")}, closed` : this.typeOf(item), valueText,
      flags.length && "beyond its limit"].filter(Boolean).join(", ");
    return this.makeNode(item, kind, label, ...parts);
  }

  typeOf(item) {
    const indices = item.outputs?.length ? item.outputs : item.inputs || [];
    return indices.length ? this.hierarchy.tensors[indices[0]]?.type ?? "" : "";
  }

  valueOf(item) {
    if (!this.measure) return null;
    const values = item.ops.map((op) => this.measure.values[op.id]).filter((value) => value != null);
    if (!values.length) return null;
    return this.measure.is_summed ? values.reduce((a, b) => a + b, 0) : Math.max(...values);
  }

  greatest() {
    if (this.greatestOf !== this.measure || this.greatestIn !== this.tree) {
      this.greatestOf = this.measure;
      this.greatestIn = this.tree;
      this.greatestValue = Math.max(0, ...this.tree.closed.map((item) => this.valueOf(item) ?? 0));
    }
    return this.greatestValue;
  }

  drawLegend() {
    const kinds = [];
    const ops = this.hierarchy.nodes.filter((node) => node.kind === "op");
    const onNpu = ops.filter((op) => op.call).length;
    const entry = (color, text) => { const swatch = element("i"); swatch.style.setProperty("--swatch", `var(--${color})`); return element("span", {}, swatch, text); };
    if (onNpu) kinds.push(entry("npu", "NPU"));
    if (onNpu < ops.length) kinds.push(entry("cpu", "CPU"));
    if (this.measure) kinds.push(entry("heat", `${this.measure.name}, against the greatest that is shown`));
    if (this.measure && Object.keys(this.measure.flagged).length) kinds.push(entry("bad", "Beyond its limit"));
    this.legend.replaceChildren(...kinds);
  }

  activate(item) {
    this.select(item);
    if (!item.members) return;
    if (this.open.has(item.id)) this.open.delete(item.id);
    else this.open.add(item.id);
    this.draw(item.id);
    this.drawn.get(item.id)?.focus({ preventScroll: true });
  }

  select(item) {
    if (this.selected === item) return;
    this.selected = item;
    this.mark();
    this.describe(item);
  }

  mark() {
    const id = this.selected?.id;
    for (const [other, node] of this.drawn) {
      node.classList.toggle("selected", other === id);
      node.setAttribute("tabindex", -1);
    }
    const reached = this.drawn.get(id) || this.drawn.values().next().value;
    reached?.setAttribute("tabindex", 0);
    for (const { line, from, to } of this.edges) line.classList.toggle("near", id != null && (from === id || to === id));
  }

  // Arrow keys go to what reads the selected node, and to what it reads; sideways to its neighbours.
  step(event) {
    const moves = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
    if (!moves[event.key] || !this.selected) return;
    event.preventDefault();
    const [along, aside] = moves[event.key];
    const here = this.drawn.get(this.selected.id)?.getBoundingClientRect();
    if (!here) return;
    const id = this.selected.id;
    const others = along
      ? this.edges.filter((edge) => (along > 0 ? edge.from : edge.to) === id).map((edge) => (along > 0 ? edge.to : edge.from))
      : [...this.drawn].filter(([, node]) => { const box = node.getBoundingClientRect(); return Math.abs(box.top - here.top) < 4 && (box.left - here.left) * aside > 4; })
        .sort(([, a], [, b]) => (a.getBoundingClientRect().left - b.getBoundingClientRect().left) * aside).map(([other]) => other);
    this.drawn.get(others[0])?.focus();
  }

  // Shows a node, wherever it is, and says what it is; scrolls the graph alone.
  reveal(id) {
    const index = this.subgraphs.findIndex((one) => one.byId.has(id));
    if (index < 0) return;
    this.chosen = index;
    if (this.choice) this.choice.value = index;
    const item = this.hierarchy.byId.get(id);
    for (let group = item.parent; group; group = group.parent) this.open.add(group.id);
    if (item.is_constant) this.withConstants = this.constants.checked = true;
    this.scale = Math.max(this.scale, 0.8);
    this.draw();
    const [node, frame] = [this.drawn.get(id), this.holder].map((one) => one.getBoundingClientRect());
    this.holder.scrollLeft += node.left + node.width / 2 - frame.left - frame.width / 2;
    this.holder.scrollTop += node.top + node.height / 2 - frame.top - frame.height / 2;
    this.select(item);
  }

  // The same, and goes there.
  show(id) {
    this.reveal(id);
    this.holder.scrollIntoView({ block: "nearest" });
    this.drawn.get(id)?.focus({ preventScroll: true });
  }

  find(text) {
    if (!text) return;
    const matches = this.subgraphs.flatMap(({ nodes, tensors }) => nodes.filter((node) => node.title.toLowerCase().includes(text)
      || [...node.outputs, ...node.inputs].some((index) => tensors[index]?.name.toLowerCase().includes(text))));
    if (!matches.length) {
      this.details.replaceChildren(element("p", { class: "quiet" }, `No op and no tensor has “${text}” in its name.`));
      return;
    }
    const next = matches.indexOf(this.selected) + 1;
    this.show(matches[next % matches.length].id);
  }

  describe(item) {
    this.details.replaceChildren(...(item ? this.descriptionOf(item)
      : [element("p", { class: "quiet" }, "Select an op to see its tensors and its numbers. Select a group to open it.")]));
  }

  descriptionOf(item) {
    const parts = [element("h3", {}, item.title)];
    const say = (heading, ...children) => parts.push(element("h4", {}, heading), ...children);
    if (item.members) {
      parts.push(element("p", { class: "quiet" }, item.about));
    } else if (item.kind === "op") {
      const [subgraph, op] = item.id.replace(/^\d+:/, "").split("/");
      parts.push(element("p", { class: "quiet" }, `op ${op} of subgraph ${subgraph}`));
    }
    if (item.ops.length) {
      const onNpu = item.ops.filter((op) => op.call).length;
      const calls = [...new Set(item.ops.map((op) => op.call).filter(Boolean))];
      const where = !onNpu ? "CPU" : onNpu < item.ops.length ? `${onNpu} of ${counted(item.ops.length, "op")} on the NPU` : `NPU, ${calls.length > 1 ? counted(calls.length, "call") : calls[0]}`;
      say("Runs on", element("div", {}, where));
    }
    if (item.reason) say("Why it is on the CPU", element("div", {}, item.reason));
    for (const measure of this.page.measures) {
      const kept = this.measure;
      this.measure = measure;
      const value = this.valueOf(item);
      this.measure = kept;
      const other = this.hierarchy.byId.get(measure.counted_in[item.id]);
      if (other) say(measure.name, element("div", {}, "counted in ", element("button", { onclick: () => this.show(other.id) }, other.title)));
      if (value == null) continue;
      say(measure.name, element("div", {}, numberText(measure.quantity, value)));
    }
    for (const flag of new Set(this.page.measures.map((measure) => measure.flagged[item.id]))) {
      if (flag) parts.push(element("p", { class: "flag" }, flag));
    }
    if (!item.members) {
      if (item.inputs.length) say("Reads", this.tensorList(item.inputs, (index) => [this.hierarchy.producer.get(index)].filter(Boolean)));
      if (item.outputs.length) say("Writes", this.tensorList(item.outputs, (index) => this.hierarchy.readers.get(index) || []));
    }
    return parts;
  }

  tensorList(indices, others) {
    return element("ul", {}, ...indices.map((index) => {
      const tensor = this.hierarchy.tensors[index];
      if (!tensor) return element("li", { class: "quiet" }, "(left out)");
      const links = others(index).flatMap((node) => [" ", element("button", { onclick: () => this.show(node.id) }, node.kind === "op" ? node.title : node.kind)]);
      return element("li", {}, element("span", { class: "mono" }, tensor.name || "(no name)"), element("br"),
        element("span", { class: "quiet" }, tensor.type + (tensor.is_constant ? ", constant" : "")), ...links);
    }));
  }
}

function arrowHead() {
  return shape("defs", {}, shape("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" },
    shape("path", { class: "arrow", d: "M0 0L8 4L0 8z" })));
}

// The stripe on a node's left: how much of it is the NPU's.
function stripes(x, y, height, share) {
  const parts = [];
  const inner = height - 12;
  const npu = Math.round(inner * share);
  if (share < 1) parts.push(shape("rect", { class: "cpu-part", x: x + 5, y: y + 6, width: 3, height: inner - npu, rx: 1.5 }));
  if (share > 0) parts.push(shape("rect", { class: "npu-part", x: x + 5, y: y + 6 + inner - npu, width: 3, height: npu, rx: 1.5 }));
  return parts;
}
