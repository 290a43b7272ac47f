// Layered layout, from top to bottom: layers, orders in them, and then places.
//
// `items` are {width, height}, in an order in which most edges go forward; `edges` are [from, to], indices of items.
// Items get x and y of their upper left corner; the result has the size, and for each edge the points it bends at.

const GAP = { x: 26, y: 40, bend: 14 };

function layOut(items, edges) {
  const forward = edges.map(([from, to]) => (from < to ? [from, to] : [to, from]));
  const layerOf = findLayers(items.length, forward);
  const nodes = items.map((item, index) => ({ item, width: item.width, height: item.height, layer: layerOf[index], up: [], down: [] }));
  const chains = forward.map(([from, to]) => bendAtLayers(nodes, from, to));
  const layers = [];
  for (const node of nodes) (layers[node.layer] ||= []).push(node);
  orderLayers(layers);
  placeAcross(layers);
  const size = placeDown(layers);
  const paths = chains.map((chain, index) => {
    const points = chain.flatMap((number, place) => pointsOf(nodes[number], place, chain.length));
    return edges[index][0] < edges[index][1] ? points : points.reverse();
  });
  return { ...size, paths };
}

function findLayers(count, edges) {
  const layer = new Array(count).fill(0);
  const sorted = [...edges].sort((a, b) => a[0] - b[0]);
  for (const [from, to] of sorted) layer[to] = Math.max(layer[to], layer[from] + 1);
  const hasSource = new Set(edges.map(([, to]) => to));
  for (let index = 0; index < count; index++) {
    if (hasSource.has(index)) continue;
    const readers = edges.filter(([from]) => from === index).map(([, to]) => layer[to]);
    if (readers.length) layer[index] = Math.min(...readers) - 1;
  }
  return layer;
}

// The nodes on an edge's way: one in each layer that it passes, shared by all edges that leave the same node.
function bendAtLayers(nodes, from, to) {
  const source = nodes[from];
  source.bends ||= new Map();
  const chain = [from];
  for (let layer = source.layer + 1; layer < nodes[to].layer; layer++) {
    if (!source.bends.has(layer)) {
      source.bends.set(layer, nodes.length);
      nodes.push({ width: GAP.bend, height: 0, layer, up: [], down: [] });
      connect(nodes, chain[chain.length - 1], nodes.length - 1);
    }
    chain.push(source.bends.get(layer));
  }
  connect(nodes, chain[chain.length - 1], to);
  return [...chain, to];
}

function connect(nodes, from, to) {
  nodes[from].down.push(nodes[to]);
  nodes[to].up.push(nodes[from]);
}

function orderLayers(layers) {
  const renumber = (layer) => layer.forEach((node, index) => { node.place = index; });
  layers.forEach(renumber);
  for (let round = 0; round < 8; round++) {
    const isDown = round % 2 === 0;
    for (const layer of isDown ? layers : [...layers].reverse()) {
      for (const node of layer) {
        const others = isDown ? node.up : node.down;
        node.wish = others.length ? others.reduce((sum, other) => sum + other.place, 0) / others.length : node.place;
      }
      layer.sort((a, b) => a.wish - b.wish || a.place - b.place);
      renumber(layer);
    }
  }
}

function placeAcross(layers) {
  for (const layer of layers) {
    let end = 0;
    for (const node of layer) {
      node.x = end + node.width / 2;
      end += node.width + GAP.x;
    }
  }
  for (let round = 0; round < 20; round++) {
    const isDown = round % 2 === 0;
    for (const layer of isDown ? layers : [...layers].reverse()) {
      for (const node of layer) {
        const others = round < 16 ? (isDown ? node.up : node.down) : [...node.up, ...node.down];
        let [sum, weight] = [0, 0];
        for (const other of others) {
          const pull = pullOf(node, other);
          sum += pull * other.x;
          weight += pull;
        }
        node.wish = weight ? sum / weight : node.x;
        node.weight = weight || 0.1;
      }
      settle(layer);
    }
  }
}

// How much two neighbours want to stand below each other: long edges run straight, and so do chains.
function pullOf(node, other) {
  if (!node.item && !other.item) return 8;
  return node.item && other.item ? 4 : 1;
}

// Places nodes of a layer as near to their wishes as their order and widths allow: neighbours that would overlap
// become a block, which stands at the mean of its wishes.
function settle(layer) {
  const blocks = [];
  let start = 0;
  for (const node of layer) {
    node.start = start + node.width / 2;
    start += node.width + GAP.x;
    let block = { nodes: [node], weight: node.weight, sum: node.weight * (node.wish - node.start) };
    while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].weight >= block.sum / block.weight) {
      const before = blocks.pop();
      block = { nodes: before.nodes.concat(block.nodes), weight: before.weight + block.weight, sum: before.sum + block.sum };
    }
    blocks.push(block);
  }
  for (const block of blocks) for (const node of block.nodes) node.x = block.sum / block.weight + node.start;
}

function placeDown(layers) {
  const all = layers.flat();
  const left = Math.min(...all.map((node) => node.x - node.width / 2));
  let y = 0;
  for (const layer of layers) {
    const height = Math.max(...layer.map((node) => node.height));
    for (const node of layer) {
      node.x -= left;
      node.y = y;
      node.bottom = y + height;
      if (node.item) Object.assign(node.item, { x: node.x - node.width / 2, y });
    }
    y += height + GAP.y;
  }
  return { width: Math.max(...all.map((node) => node.x + node.width / 2)), height: y - GAP.y };
}

// An edge leaves a node below and comes in above; on its way it passes layers straight.
function pointsOf(node, place, length) {
  if (place === 0) return [[node.x, node.y + node.height]];
  if (place === length - 1) return [[node.x, node.y]];
  return [[node.x, node.y], [node.x, node.bottom]];
}

function curve(points) {
  let path = `M${points[0].map(Math.round)}`;
  for (let i = 1; i < points.length; i++) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    const middle = Math.round((y0 + y1) / 2);
    path += Math.abs(x0 - x1) < 1 ? `L${[x1, y1].map(Math.round)}` : `C${[x0, middle, x1, middle, x1, y1].map(Math.round)}`;
  }
  return path;
}
