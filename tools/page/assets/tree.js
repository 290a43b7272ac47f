// Which nodes and groups of a subgraph are visible, and where.

// A subgraph's nodes and groups as a tree. Each item has `ops`, the ops that it stands for.
class Hierarchy {
  constructor(subgraph, index) {
    this.name = subgraph.name;
    this.tensors = subgraph.tensors.map((tensor) => ({ name: "", ...tensor }));
    this.producer = new Map();
    this.readers = new Map();
    this.groups = subgraph.groups.map((group, number) => ({ ...group, id: `${index}/group/${number}`, title: group.name, members: [], ops: [] }));
    this.nodes = subgraph.nodes.map((node) => ({ name: "", inputs: [], outputs: [], call: "", ...node, title: node.name || `(${node.kind})`, parent: this.groups[node.group] }));
    for (const group of this.groups) group.parent = this.groups[subgraph.groups[this.groups.indexOf(group)].parent];
    this.byId = new Map([...this.groups, ...this.nodes].map((item) => [item.id, item]));
    for (const node of this.nodes) {
      node.ops = node.kind === "op" ? [node] : [];
      for (const tensor of node.outputs) this.producer.set(tensor, node);
      for (const tensor of node.inputs) this.readers.set(tensor, [...(this.readers.get(tensor) || []), node]);
      if (node.kind === "op") for (let group = node.parent; group; group = group.parent) group.ops.push(node);
    }
    this.place();
  }

  // Members of each group, in the order of their first nodes.
  place() {
    this.top = [];
    const placed = new Set();
    for (const node of this.nodes) {
      for (let item = node; item && !placed.has(item); item = item.parent) {
        placed.add(item);
        (item.parent ? item.parent.members : this.top).push(item);
      }
    }
  }

  children(group) {
    return group === -1 ? this.top : group.members;
  }
}

class VisibleTree {
  constructor(hierarchy, open, withConstants) {
    this.hierarchy = hierarchy;
    this.open = open;
    this.isShown = (node) => withConstants || !node.is_constant;
    this.closed = [];
    this.links = this.findLinks();
  }

  // What edges there are in each container, between its items and its ports.
  findLinks() {
    const links = new Map();
    const add = (container, from, to, ends) => {
      if (!links.has(container)) links.set(container, new Map());
      links.get(container).set(`${from.id ?? from}>${to.id ?? to}`, { from, to, ends });
    };
    for (const node of this.hierarchy.nodes) {
      if (!this.isShown(node)) continue;
      for (const tensor of node.inputs) {
        const source = this.hierarchy.producer.get(tensor);
        if (source && source !== node && this.isShown(source)) this.link(source, node, add);
      }
    }
    return links;
  }

  link(source, target, add) {
    const [up, down] = [this.visiblePath(source), this.visiblePath(target)];
    let common = 0;
    while (common < up.length - 1 && common < down.length - 1 && up[common] === down[common]) common++;
    if (up[common] === down[common]) return;
    const ends = { from: up[up.length - 1].id, to: down[down.length - 1].id };
    add(common ? up[common - 1] : null, up[common], down[common], ends);
    for (let i = common; i < up.length - 1; i++) add(up[i], up[i + 1], "out", ends);
    for (let i = common; i < down.length - 1; i++) add(down[i], "in", down[i + 1], ends);
  }

  // From the outermost group that a node is in to the closed group or the node that stands for it.
  visiblePath(node) {
    const path = [];
    for (let item = node; item; item = item.parent) path.unshift(item);
    const end = path.findIndex((item) => item.members && !this.open.has(item.id));
    return end < 0 ? path : path.slice(0, end + 1);
  }

  layOut(container = null) {
    const items = this.hierarchy.children(container ?? -1).filter((item) => (item.members ? item.ops.some(this.isShown) : this.isShown(item)));
    const boxes = items.map((item) => this.boxOf(item));
    const links = [...(this.links.get(container)?.values() ?? [])];
    const port = (name) => ({ port: name, width: 1, height: 1 });
    if (links.some((link) => link.from === "in")) boxes.unshift(port("in"));
    if (links.some((link) => link.to === "out")) boxes.push(port("out"));
    const index = new Map(boxes.map((box, place) => [box.port ?? box.item, place]));
    const { width, height, paths } = boxes.length ? layOut(boxes, links.map((link) => [index.get(link.from), index.get(link.to)])) : { width: 0, height: 0, paths: [] };
    const idOf = (end, link, side) => (typeof end === "string" ? link.ends[side] : end.id);
    const edges = links.map((link, place) => ({ points: paths[place], from: idOf(link.from, link, "from"), to: idOf(link.to, link, "to") }));
    return { boxes, edges, width, height };
  }

  boxOf(item) {
    if (item.members && this.open.has(item.id)) {
      const inside = this.layOut(item);
      return { item, inside, width: Math.max(inside.width + 2 * NODE.inner, NODE.width), height: inside.height + NODE.head + NODE.inner };
    }
    this.closed.push(item);
    return { item, width: NODE.width, height: NODE.height };
  }
}
