// The page, section by section.

function section(id, title, about, parts) {
  document.getElementById("sections").append(element("a", { href: `#${id}` }, title));
  const made = element("section", { id, "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title), about ? element("p", {}, about) : null);
  document.getElementById("content").append(made);
  made.append(...parts().filter(Boolean));
}

function showSummary(page) {
  const facts = page.facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  const notes = page.notes.map((note) => element("li", {}, note));
  section("summary", "Summary", "", () => [element("dl", { class: "facts" }, ...facts), notes.length ? element("ul", { class: "notes" }, ...notes) : null]);
}

function showMemory(page) {
  const holder = element("div");
  const show = (call) => {
    const charts = call.plan.spaces.map((_, number) => new MemoryChart(call.plan, number)).filter((chart) => chart.buffers.length);
    holder.replaceChildren(...charts.map((chart) => chart.render()));
    charts.forEach((chart) => chart.redraw(1));
  };
  const used = (call) => call.plan.spaces.filter((space) => space.used);
  const textOf = (call) => `${call.call}: ${used(call).map((space) => `${numberText("bytes", space.used)} ${space.name}`).join(", ")}`;
  const select = element("select", { onchange: () => show(page.memory[select.value]) },
    ...page.memory.map((call, index) => element("option", { value: index }, textOf(call))));
  const most = page.memory.map((call) => used(call).reduce((sum, space) => sum + space.used, 0));
  select.value = most.indexOf(Math.max(...most));
  const tools = element("div", { class: "tools" }, element("label", {}, "NPU call", select));
  section("memory", "Memory", "What lies where while an NPU call runs: across are its steps, upwards are addresses.", () => [tools, holder]);
  show(page.memory[select.value]);
}

function showPage(page) {
  document.getElementById("title").append(page.title);
  document.getElementById("about").append(page.about);
  document.getElementById("made-by").append(page.made_by);
  if (page.facts.length || page.notes.length) showSummary(page);
  const graph = page.graph.length ? new GraphView(page, page.graph) : null;
  const goTo = graph && ((id) => { graph.show(id); document.getElementById("graph").scrollIntoView(); });
  const showTable = (table) => section(`table-${page.tables.indexOf(table)}`, table.title, table.about, () => new SortedTable(table, goTo).render());
  page.tables.filter((table) => table.is_first).forEach(showTable);
  if (graph) {
    section("graph", "Graph", "", () => graph.render());
    if (page.focus) graph.reveal(page.focus);
    else graph.draw();
  }
  if (page.spans.length) {
    const line = new TimeLine(page.spans);
    section("time-line", "Time line", page.spans_note, () => line.render());
    line.redraw(1);
  }
  if (page.memory.length) showMemory(page);
  page.tables.filter((table) => !table.is_first).forEach(showTable);
  if (goTo) followLink(goTo);
}

// A link to an op, as in `page.html#0/12`, shows it.
function followLink(goTo) {
  const go = () => { const id = decodeURIComponent(location.hash.slice(1)); if (id.includes("/")) goTo(id); };
  window.addEventListener("hashchange", go);
  go();
}

function chooseTheme() {
  const select = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const kept = (() => { try { return localStorage.getItem("litert-npu-theme") || ""; } catch { return ""; } })();
  const apply = () => { document.documentElement.dataset.theme = select.value || (system.matches ? "dark" : "light"); };
  select.value = kept;
  select.addEventListener("change", () => { apply(); try { localStorage.setItem("litert-npu-theme", select.value); } catch { /* the choice is not kept */ } });
  system.addEventListener("change", apply);
  apply();
}

function main() {
  const root = document.documentElement;
  window.addEventListener("error", (event) => { root.dataset.failed = event.message; });
  chooseTheme();
  showPage(JSON.parse(document.getElementById("data").textContent));
  root.dataset.drawn = "yes";
  requestAnimationFrame(() => { root.dataset.drawnMs = Math.round(performance.now()); });
}

main();
