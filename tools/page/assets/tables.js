// Tables that are sorted by a click on a heading.

const SHOWN_ROWS = 200;

class SortedTable {
  constructor({ columns, rows, ...rest }, onnode) {
    const used = columns.map((_, index) => index).filter((index) => rows.some((row) => row[index] != null && row[index] !== ""));
    const table = { ...rest, columns: used.map((index) => columns[index]), rows: rows.map((row) => used.map((index) => row[index])) };
    this.table = table;
    this.onnode = onnode;
    this.order = table.rows.map((_, index) => index);
    this.filter = "";
    this.isWhole = false;
    // Columns of one quantity have one unit.
    const numbers = (quantity) => table.columns.flatMap((column, index) => (column.quantity === quantity ? table.rows.map((row) => row[index]) : []));
    this.formats = table.columns.map((column) => (isNumber(column.quantity)
      ? columnFormat(column.quantity, numbers(column.quantity).filter((cell) => cell != null)) : null));
  }

  render() {
    const { table } = this;
    this.headings = table.columns.map((column, index) => {
      const unit = this.formats[index]?.unit;
      const button = element("button", { onclick: () => this.sort(index) }, unit ? `${column.name} (${unit})` : column.name);
      return element("th", { scope: "col", class: isNumber(column.quantity) ? "number" : "" }, button);
    });
    this.body = element("tbody");
    this.count = element("div", { class: "count" });
    const filter = table.rows.length > 12 && element("div", { class: "tools" }, element("input", { type: "search", placeholder: "Show rows with …",
      "aria-label": `Show rows of ${table.title} with this text`, oninput: (event) => { this.filter = event.target.value.toLowerCase(); this.fill(); } }));
    this.fill();
    return [filter || null, element("div", { class: "table", tabindex: 0, role: "group", "aria-label": table.title },
      element("table", {}, element("thead", {}, element("tr", {}, ...this.headings)), this.body)), this.count];
  }

  sort(index) {
    const heading = this.headings[index];
    const isDown = heading.getAttribute("aria-sort") ? heading.getAttribute("aria-sort") === "ascending" : isNumber(this.table.columns[index].quantity);
    this.headings.forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    const { rows } = this.table;
    const sign = isDown ? -1 : 1;
    this.order.sort((a, b) => {
      const [x, y] = [rows[a][index], rows[b][index]];
      if (x == null || y == null) return (x == null) - (y == null);
      return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
    });
    this.fill();
  }

  fill() {
    const { rows } = this.table;
    const found = this.filter ? this.order.filter((index) => rows[index].some((cell) => String(cell ?? "").toLowerCase().includes(this.filter))) : this.order;
    const shown = this.isWhole ? found : found.slice(0, SHOWN_ROWS);
    this.body.replaceChildren(...shown.map((index) => this.row(index)));
    const parts = [];
    if (this.filter || shown.length < found.length) parts.push(`${grouped.format(shown.length)} of ${counted(rows.length, "row")}`);
    if (shown.length < found.length) parts.push(element("button", { onclick: () => { this.isWhole = true; this.fill(); } }, "Show all"));
    this.count.replaceChildren(...parts);
    this.count.hidden = !parts.length;
  }

  row(index) {
    const { columns, rows, nodes } = this.table;
    const node = nodes[index];
    const isText = columns.map((column) => !isNumber(column.quantity));
    const first = isText.indexOf(true);
    return element("tr", {}, ...rows[index].map((cell, place) => {
      if (cell == null) return element("td", { class: isText[place] ? "" : "number" });
      if (!isText[place]) return element("td", { class: "number" }, this.formats[place].text(cell));
      const text = typeof cell === "boolean" ? (cell ? "yes" : "no") : String(cell);
      if (place === first && node && this.onnode) return element("td", { class: "link" }, element("button", { onclick: () => this.onnode(node) }, text));
      return element("td", {}, text);
    }));
  }
}
