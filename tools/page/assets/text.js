// Elements and numbers. Names of a model only ever become text nodes.

const SVG = document.getElementById("svg-source").namespaceURI;

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

const element = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);
const shape = (tag, attributes = {}, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

const grouped = new Intl.NumberFormat("en");
const counted = (number, noun) => `${grouped.format(number)} ${noun}${number === 1 ? "" : "s"}`;
const shortened = (text, most) => (text.length > most ? `${text.slice(0, Math.max(most - 1, 1))}…` : text);

// The unit that suits a number, as [size, name].
function unitOf(quantity, number) {
  const units = {
    seconds: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]],
    bytes: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
    amount: [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]],
    share: [[0.01, "%"]],
    decibel: [[1, "dB"]],
  }[quantity] || [[1, ""]];
  return units.find(([size]) => Math.abs(number) >= size) || units[units.length - 1];
}

function digits(number) {
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 1e6 || size < 1e-3) return number.toExponential(2);
  return number.toFixed(Math.max(0, 2 - Math.floor(Math.log10(size))));
}

// One number with its unit: "1.23 ms".
function numberText(quantity, number) {
  if (number == null) return "";
  if (quantity === "count") return grouped.format(number);
  const [size, unit] = unitOf(quantity, number);
  if (quantity === "amount" && size === 1) return grouped.format(number);
  if (quantity === "bytes" && size === 1) return `${number} B`;
  return `${digits(number / size)}${unit && (unit === "%" ? "%" : ` ${unit}`)}`;
}

// How all numbers of a column are written: in one unit, with as many decimals.
function columnFormat(quantity, numbers) {
  if (quantity === "count") return { unit: "", text: (number) => grouped.format(number) };
  const most = numbers.reduce((most, number) => Math.max(most, Math.abs(number)), 0);
  const [size, unit] = unitOf(quantity, most);
  if (quantity === "number") return { unit, text: digits };
  const whole = most ? Math.floor(Math.log10(most / size)) + 1 : 1;
  const decimals = { bytes: size === 1 ? 0 : 1, share: 1, decibel: 1 }[quantity] ?? Math.min(Math.max(4 - whole, 0), 3);
  return { unit, text: (number) => (number / size).toFixed(decimals) };
}

const isNumber = (quantity) => quantity !== "text";
