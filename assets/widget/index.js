/* The notebook widget: graph, schedule, memory and why of one plan, with controls. All that is shown is what the kernel's
   traits say; all that is done here is sent to the kernel, which answers with new values. */
import cytoscape from "cytoscape";
import { explorerParts as ex } from "./parts.js";
import "../shared/arrows.js";
import "../shared/axis.js";
import "../shared/boxes.js";
import "../shared/chart.js";
import "../shared/element.js";
import "../shared/find.js";
import "../shared/lanes.js";
import "../shared/lit.js";
import "../shared/memory.js";
import "../shared/minimap.js";
import "../shared/numbers.js";
import "../shared/row_names.js";
import "../shared/shades.js";
import "../shared/strips.js";
import "../shared/svg.js";
import "../shared/tiles.js";
import "../shared/tip.js";
import "../time/clock.js";
import "../time/course.js";
import "../time/cursor.js";
import "../time/figures.js";
import { controls } from "./controls.js";
import { made, table } from "./html.js";
import { banner, comparison, difference, figures, inspector, numbered, pins, places, review, waits, why } from "./panels.js";
import { themeOf, watchTheme } from "./theme.js";

const DEVICES = [["name", "Device"], ["kind", "Kind"], ["operators", "Operators"], ["busy", "Busy"], ["compute", "Compute"],
  ["parameters", "Static memory"], ["peak", "Peak memory"], ["of_cap", "Of cap"]];
const MIN_FRAME_PX = 40; /* of a side of the graph's frame; less is a cell that is folded */
const FRAME_SHARE = 0.1; /* of a side: smaller changes are fitted here */
const FRAME_MS = 150; /* after the last change of its size */
const GRAPH_LABEL = "Operators grouped by module, coloured by device. Arrow keys move between boxes, Enter expands, slash finds, "
  + "Escape clears.";
const CHART_LABEL = "Schedule: a row a device, a stage or a link, a bar a stage and micro-batch, an operator or a transfer. Plus "
  + "and minus zoom, arrow keys move, 0 shows all, Escape clears.";

/* The controls of time below a schedule, and the line over it: {parts, cursor}. */
function clockParts(card, frame) {
  const bar = made("div", "clock", null, card, { role: "group", "aria-label": "Time" });
  const button = (label, title) => made("button", "tool", label, bar, { title, ...(/^[A-Z]/.test(label) ? {} : { "aria-label": title }) });
  const parts = { "": bar };
  parts.back = button("◂", "To the event before (comma)");
  parts.play = button("▶", "Play the schedule (space)");
  parts.on = button("▸", "To the next event (full stop)");
  parts.at = made("div", "clock-at", null, bar, { role: "slider", tabindex: "0", "aria-label": "Instant of the schedule",
    "aria-valuemin": "0", "aria-valuemax": "1000", "aria-valuenow": "0", "aria-valuetext": "stopped" });
  made("div", "knob", null, parts.at);
  parts.time = made("span", "clock-time", "", bar);
  parts.words = made("span", "quiet clock-words", "", bar);
  parts.speed = button("1×", "Speed: the whole in 15 s, or half or twice as fast");
  parts.waits = button("Waits", "What an idle device waits for at this instant (w)");
  parts.says = made("span", "sr", "", bar, { role: "status", "aria-live": "polite" });
  const cursor = made("div", "cursor", null, null, { "aria-hidden": "true", hidden: "" });
  made("div", "axis-press", null, cursor);
  const line = made("div", "line", null, cursor);
  for (const name of ["grip", "rule", "readings"]) made("div", name, null, line);
  return { parts, cursor };
}

function render({ model, el }) {
  el.classList.add("placement-explorer-cell");
  const root = made("div", "placement-explorer", null, el, { "data-lm-suppress-shortcuts": "true" });
  const mark = `[data-placement-explorer="${model.get("_mark")}"]`; /* of the picture that stands here without a kernel */
  made("style", "", `${mark}, .jp-OutputArea-child:has(> ${mark}, > * > ${mark}) { display: none; }`, root);
  const shell = made("section", "shell", null, root, { "aria-label": "Placement Explorer" });
  const send = (message) => model.send(message);

  const head = made("div", "top", null, shell);
  made("i", "mark-text", null, head, { "aria-hidden": "true" });
  const chip = made("span", "chip", null, head);
  const status = made("div", "status", null, head, { role: "status", "aria-live": "polite" });
  const dot = made("i", "dot", null, status, { "aria-hidden": "true" });
  const words = made("b", "", "", status);
  const moreWords = made("span", "more", "", status);
  const drawControls = controls(shell, send);
  const ended = made("div", "banner ended", null, shell, { role: "alert", hidden: "" });
  made("b", "", "The kernel of this widget has ended", ended);
  made("span", "", "What it drew stays to be read. Run its cell again to go on.", ended);
  const alarm = made("div", "banner", null, shell, { role: "alert" });
  const kpis = made("div", "kpis", null, shell);
  const story = made("p", "story small quiet", "", shell);

  const views = made("div", "views", null, shell);
  const graphCard = made("section", "card graph-card", null, views, { "aria-label": "Graph" });
  const graphHead = made("div", "card-head", null, graphCard);
  made("h2", "", "Operators", graphHead);
  const count = made("span", "quiet", "", graphHead);
  made("span", "spring", null, graphHead);
  const tool = (parent, label, title, act) => {
    const named = /^[a-z]/i.test(label) ? {} : { "aria-label": title }; /* a sign is read out as what it does */
    const button = made("button", "tool", label, parent, { title, ...named });
    button.addEventListener("click", act);
    return button;
  };
  tool(graphHead, "−", "Show fewer levels of modules", () => send({ type: "depth", step: -1 }));
  tool(graphHead, "+", "Show one more level of modules", () => send({ type: "depth", step: 1 }));
  tool(graphHead, "/", "Find an operator or module by name: press /", () => finder.open());
  tool(graphHead, "Fit", "Fit the graph to its frame", () => boxes.fit());
  const numbers = made("div", "values-legend", null, graphCard);
  const canvases = made("div", "canvases", null, graphCard);
  const canvas = made("div", "canvas", null, canvases, { tabindex: "0", role: "img", "aria-label": GRAPH_LABEL });
  const drawing = made("div", "drawing", null, canvas);

  const chartCard = made("section", "card gantt-card", null, views, { "aria-label": "Schedule" });
  const chartHead = made("div", "card-head", null, chartCard);
  made("h2", "", "Schedule", chartHead);
  const spansCount = made("span", "quiet", "", chartHead);
  made("span", "spring", null, chartHead);
  const rowsChoice = made("div", "choice", null, chartHead, { role: "group", "aria-label": "What a row is" });
  for (const [kind, label] of [["devices", "Devices"], ["stages", "Stages"]]) {
    made("button", "", label, rowsChoice, { "data-value": kind }).addEventListener("click", () => send({ type: "view", rows: kind }));
  }
  const pathButton = tool(chartHead, "Path", "Critical path: the chain of operators and transfers that decides the end", () => {
    const on = pathButton.getAttribute("aria-pressed") !== "true";
    send({ type: "view", path: on });
  });
  tool(chartHead, "Fit", "Show the whole schedule", () => gantt.fit());
  const legend = made("div", "gantt-legend", null, chartCard);
  const frame = made("div", "canvas", null, chartCard, { tabindex: "0", role: "group", "aria-label": CHART_LABEL });
  const time = clockParts(chartCard, frame);

  const below = made("div", "below", null, shell);
  const memoryCard = made("section", "card memory-card", null, below, { "aria-label": "Memory over time" });
  made("h2", "", "Memory", made("div", "card-head", null, memoryCard));
  const memory = made("div", "memory", null, memoryCard);
  const twin = made("details", "twin", null, memoryCard);
  made("summary", "", "Devices as a table", twin);
  const rows = made("div", "table-wrap", null, twin, { tabindex: "0" });
  const whyCard = made("section", "card text-card", null, below, { "aria-label": "Why this plan" });
  const whyBody = made("div", "why", null, whyCard);
  const pickedCard = made("section", "card text-card", null, below, { "aria-label": "Selected" });
  const pickedBody = made("div", "inspector", null, pickedCard);
  const pinned = made("div", "pinned", null, pickedCard, { role: "status", "aria-live": "polite" });
  const besideCard = made("section", "card text-card beside-card", null, below, { "aria-label": "Review and compare" });
  const besideHead = made("div", "actions", null, besideCard);
  const besideBody = made("div", "beside-body", null, besideCard, { tabindex: "0", role: "region", "aria-label": "What was asked of the plan" });
  for (const [type, label] of [["review", "Review"], ["keep", "Keep this plan"], ["differ", "Compare with the kept one"], ["compare", "Compare planners"]]) {
    const button = made("button", "tool", label, besideHead);
    button.dataset.act = type;
    button.disabled = type === "differ";
    button.addEventListener("click", () => send({ type }));
  }
  const keptWords = made("span", "small quiet", "", besideHead);

  const cy = cytoscape({
    container: drawing, elements: [], layout: { name: "preset", fit: false }, minZoom: 0.02, maxZoom: 2,
    autoungrabify: true, boxSelectionEnabled: false, userZoomingEnabled: false,
  });
  /* The wheel belongs to the notebook until the graph has the focus. */
  canvas.addEventListener("focus", () => cy.userZoomingEnabled(true));
  canvas.addEventListener("blur", () => cy.userZoomingEnabled(false));
  canvas.addEventListener("pointerdown", () => canvas.focus({ preventScroll: true }));
  frame.addEventListener("pointerdown", () => frame.focus({ preventScroll: true }));

  let plan = null;
  let drawn = -1; /* which plan that is */
  let tried = ""; /* the comparison of planners that is shown */
  let selected = null;
  const select = (kind, id) => send({ type: "select", kind, id: String(id) });
  const release = () => { if (selected) select("none", ""); };

  const boxes = ex.boxes({
    instance: () => (cy.destroyed() ? null : cy),
    root: () => root,
    selected: (id) => { if (id) select("box", id); else release(); },
    hovered: (keys) => { if (!selected) byKeys(keys); },
    expanded: (id) => send({ type: "expand", element: id }),
    released: () => {},
    peeked: (id) => send({ type: "peek", element: id }),
  });
  const unwatch = boxes.listen(canvas);
  const gantt = ex.chart(frame, frame, {
    root: () => root,
    pick(bar) {
      const bars = gantt.bars();
      if (!plan.by_operator) select(bars.stage[bar] >= 0 ? "stage" : "device", bars.stage[bar] >= 0 ? bars.stage[bar] : bars.device[bar]);
      else if (bars.key[bar] >= 0) select("operator", bars.key[bar]);
      else { /* a run: large enough that its operators can be clicked */
        const room = 0.15 * (bars.end[bar] - bars.start[bar]);
        gantt.look(bars.start[bar] - room, bars.end[bar] + room);
      }
    },
    pickRow(row) {
      if (plan.rows.link[row]) showBars((i) => gantt.spans().row[i] === row);
      else if (plan.rows.kind === "stages") toggle("stage", plan.rows.stages[row]);
      else toggle("device", plan.rows.devices[row][0]);
    },
    hover(bar) {
      if (selected || !plan) return;
      const key = bar === null ? -1 : gantt.bars().key[bar];
      if (key < 0) boxes.highlight(null); else boxes.showKey(key, false);
    },
    release,
    ask: (from, to) => send({ type: "window", from, to }),
    /* The wheel belongs to the notebook until the chart has the focus. */
    wheel: (event) => frame === frame.getRootNode().activeElement || event.ctrlKey || event.metaKey,
    moved: () => clock.place(),
    laid: () => clock.fit(),
  });
  frame.append(time.cursor); /* over the chart */
  const sight = () => {
    if (!plan || !gantt.ready()) return null;
    const [from, to] = gantt.range();
    const { sheet, ...seen } = gantt.sight();
    return { ...seen, plot: sheet, rows: plan.rows, from: from * plan.scale_s, to: to * plan.scale_s, scale_s: plan.scale_s };
  };
  const under = (x, y) => {
    const spot = plan && gantt.ready() ? gantt.under(x, y) : null;
    return spot && { row: spot.row, at_s: spot.at * plan.scale_s, bar: gantt.barAt(x, y) !== null };
  };
  const clock = ex.clockOf({
    part: (name) => time.parts[name],
    chart: { sight, under, look: (from, to) => gantt.look(from / plan.scale_s, to / plan.scale_s) },
    frame: () => frame,
    cursor: ex.cursorOf({ box: () => time.cursor, memory: () => memory, timed: () => shell }),
    send, playable: () => plan !== null, release: () => release(),
  });
  clock.listen();
  const showBars = (bright) => gantt.show(bright, plan && plan.rows.path ? plan.path : null);
  frame.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { release(); clock.rest(); }
    else if (!gantt.key(event)) return;
    event.preventDefault();
    event.stopPropagation();
  });
  const finder = ex.finder({
    frame: () => canvases, focused: () => canvas, send, before: () => {},
    pick: (box) => boxes.reveal(box),
  });
  root.addEventListener("keydown", clock.keys);
  root.addEventListener("keydown", function (event) {
    const within = event.target.closest("input, textarea, select");
    if (event.key !== "/" || within || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    finder.open();
  });

  const toggle = (kind, id) => (selected && selected.kind === kind && selected.id === String(id) ? release() : select(kind, id));
  const byKeys = (keys) => showBars(keys && plan ? (i) => keys.has(gantt.spans().key[i]) : null);

  /* What is selected is bright, here and in the graph. */
  function light() {
    const spans = plan ? gantt.spans() : null;
    for (const card of memory.querySelectorAll("[data-device]")) {
      card.classList.toggle("held", !!selected && selected.kind === "device" && card.dataset.device === selected.id);
    }
    const one = selected && selected.kind === "box" && selected.boxes.length === 1 ? selected.boxes[0] : null;
    boxes.mark(one);
    if (!selected) { boxes.highlight(null); showBars(null); return; }
    if (one) boxes.clear(); /* what is marked is bright, with its neighbours */
    else boxes.highlight(new Set(selected.boxes), null);
    const values = new Set(selected.values);
    showBars(spans ? (i) => values.has(spans[selected.column][i]) : null);
  }

  function act(verb, argument) {
    if (verb === "pin") send({ type: "pin", device: argument });
    else send({ type: verb, element: argument });
  }

  function reveal(operator, from_s, to_s) {
    const key = operator >= 0 ? gantt.spans().key[gantt.spans().operator.indexOf(operator)] : -1;
    if (key >= 0) select("operator", key);
    const [from, to] = [from_s / plan.scale_s, to_s / plan.scale_s];
    const end = plan.figure.axis.end;
    const half = Math.min(end / 2, Math.max(12 * (to - from), end / 60));
    const middle = Math.min(Math.max((from + to) / 2, half), end - half);
    gantt.look(middle - half, middle + half);
  }

  /* What an idle device waits for, in words and as a way through the schedule. */
  function waited(message) {
    clock.say(message.text);
    if (!message.wait) return;
    const colour = getComputedStyle(root).getPropertyValue("--accent").trim();
    const shape = ex.idleShape(plan.rows, message.device, message.idle_s, plan.scale_s, colour);
    if (shape) gantt.show(null, message.path, [shape]);
    waits(pickedBody, message.wait);
  }

  /* -- the kernel's traits ------------------------------------------------------------------------- */

  const drawers = {
    _graph() {
      const graph = model.get("_graph");
      if (!graph.elements) return;
      cy.style(graph.style);
      boxes.draw(graph);
      count.textContent = graph.count;
      drawers._overlay();
    },
    _overlay() {
      const overlay = model.get("_overlay");
      numbered(numbers, overlay.values);
      boxes.values(overlay.values || null);
      if (overlay.nodes) boxes.overlay(overlay);
      light();
    },
    _plan() {
      const next = model.get("_plan");
      const again = plan && next.figure && next.turn === plan.turn && next.scale_s === plan.scale_s;
      const looked = again && gantt.range()[1] - gantt.range()[0] < 0.97 * gantt.end() ? gantt.range() : null;
      plan = next.figure ? next : null;
      for (const part of [kpis, story, legend, memory, whyBody, rows]) part.replaceChildren();
      below.hidden = kpis.hidden = !plan;
      spansCount.textContent = plan ? plan.count : "";
      rowsChoice.hidden = !plan || !plan.rows.can;
      pathButton.disabled = !plan;
      frame.dataset.empty = plan ? "" : "No schedule without a plan.";
      if (!plan) {
        gantt.clear();
        clock.drawn({ reason: "none" });
        if (drawn >= 0) drawers._graph(); /* colours of the plan before */
        drawn = -1;
        return;
      }
      figures(kpis, plan.cards);
      story.textContent = plan.story;
      for (const [key, label] of plan.legend) {
        const one = made("span", "legend", null, legend);
        made("i", "key " + key, null, one);
        one.append(label);
      }
      for (const button of rowsChoice.children) button.setAttribute("aria-pressed", String(button.dataset.value === plan.rows.kind));
      pathButton.setAttribute("aria-pressed", String(plan.rows.path));
      gantt.draw(plan, looked);
      ex.memory.drawIn(memory, plan.memory, plan.strips, (device) => toggle("device", device));
      rows.replaceChildren(table(DEVICES, plan.device_rows, "Devices"));
      why(whyBody, plan.why, plan.order, reveal);
      clock.drawn({ reason: plan.drawn === drawn ? "rows" : "plan" });
      drawn = plan.drawn;
      light();
    },
    _selected() {
      const next = model.get("_selected");
      selected = next.kind ? next : null;
      inspector(pickedBody, selected, act);
      light();
    },
    _status() {
      const status = model.get("_status");
      shell.dataset.state = status.state;
      shell.classList.toggle("stale", status.stale);
      shell.setAttribute("aria-busy", String(status.busy));
      chip.replaceChildren(made("b", "", status.model.name), " · " + status.model.detail);
      chip.title = status.model.title;
      words.textContent = status.words;
      moreWords.textContent = status.more;
      banner(alarm, status.banner, status.ways, (bytes) => send({ type: "set", name: "memory", value: bytes }), (place) => send({ type: "way", place }));
      pins(pinned, status.pins, status.cost, (name) => send({ type: "unpin", name }));
      const now = JSON.stringify(status.tried);
      if (now !== tried && status.tried.rows) comparison(besideBody, status.tried, send);
      else if (status.busy || (now !== tried && tried.length > 2)) besideBody.replaceChildren();
      tried = now;
      drawControls(model.get("_controls"), status);
    },
    _controls() { drawControls(model.get("_controls"), model.get("_status")); },
  };

  /* How large the frame of the graph is: what is open, and in how many columns, is arranged for it. */
  let framed = [0, 0];
  let framing = null;
  function sendFrame() {
    const [wide, tall] = [canvas.clientWidth, canvas.clientHeight];
    if (Math.min(wide, tall) < MIN_FRAME_PX || [wide, tall].every((side, i) => Math.abs(side - framed[i]) <= FRAME_SHARE * framed[i])) return;
    framed = [wide, tall];
    send({ type: "canvas", width: wide, height: tall });
  }
  const frameWatch = new ResizeObserver(function () { clearTimeout(framing); framing = setTimeout(sendFrame, FRAME_MS); });
  frameWatch.observe(canvas);

  let sentTheme = model.get("_theme"); // or sent, and not answered yet
  function useTheme() {
    const theme = themeOf(el);
    if (root.dataset.theme !== theme) root.dataset.theme = theme;
    if (sentTheme !== theme) send({ type: "theme", theme });
    sentTheme = theme;
  }

  const listeners = Object.entries(drawers).map(([name, draw]) => [`change:${name}`, draw]);
  const onMatches = (message) => {
    if (message.type === "found") finder.draw(message);
    else if (message.type === "peeked") boxes.peeked(message);
    else if (message.type === "bars") gantt.refine(message);
    else if (message.type === "elsewhere") {
      const here = pickedBody.querySelector(".why-here");
      if (!here) return; /* somebody selected something else meanwhile */
      places(here, message.rows);
      pickedBody.scrollTop = here.offsetTop - pickedBody.offsetTop;
    }
    else if (message.type === "course") clock.take(message.course, message.words);
    else if (message.type === "waits") waited(message);
    else if (message.type === "review") review(besideBody, message);
    else if (message.type === "difference") difference(besideBody, message.lines);
    else if (message.type === "refused") besideBody.textContent = message.message;
    else if (message.type === "kept") { keptWords.textContent = message.words; besideHead.querySelector('[data-act="differ"]').disabled = false; }
  };
  /* The kernel was restarted: no message reaches it any more, and none of its answers comes. */
  function disconnected() {
    ended.hidden = false;
    shell.classList.add("ended");
    for (const part of shell.querySelectorAll(".controls, .views, .below")) part.inert = true;
  }
  for (const [name, draw] of listeners) model.on(name, draw);
  model.on("comm_live_update", disconnected);
  model.on("msg:custom", onMatches);
  const unfollow = watchTheme(useTheme);
  useTheme();
  for (const name of ["_status", "_graph", "_plan", "_selected"]) drawers[name]();
  dot.title = "";

  return function () {
    for (const [name, draw] of listeners) model.off(name, draw);
    model.off("comm_live_update", disconnected);
    model.off("msg:custom", onMatches);
    unfollow();
    unwatch();
    frameWatch.disconnect();
    clearTimeout(framing);
    clock.stop();
    gantt.dispose();
    cy.destroy();
  };
}

export default { render };
