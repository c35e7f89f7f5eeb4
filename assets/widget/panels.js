/* Key figures, why this plan, what is selected, and what went wrong: the same values as on the page, as elements. */
import { made } from "./html.js";

export function figures(place, cards) {
  place.replaceChildren(...cards.map(function (card) {
    const box = made("div", "kpi");
    box.title = `${card.name}: ${card.value}, ${card.note}` + (card.change ? `; ${card.change} against the plan before` : "");
    made("span", "", card.name, box);
    const value = made("div", "value", null, box);
    made("b", "", card.value, value);
    if (card.change) made("i", "change " + card.tone, card.change, value);
    made("em", card.note_tone, card.note || "\u00a0", box);
    return box;
  }));
}

const unbroken = (words) => words.replaceAll(" %", "\u00a0%");
const part = (one) => (one.device >= 0 ? "part s" + (one.device % 64) : "part " + one.key);

/* What it would cost at every other place, and to move the edges of its stage. */
export function places(place, rows) {
  place.replaceChildren(made("h2", "", "Why here"));
  const list = (some, title) => {
    if (!some.length) return;
    if (title) made("h3", "", title, place);
    const all = made("ul", "places", null, place);
    for (const row of some) {
      const line = made("li", "", null, all);
      made("i", "swatch s" + (row.device % 64), null, line);
      made("span", "", row.name, line);
      made("b", row.delta_s === null || row.here ? "none" : row.delta_s < 0 ? "good" : "", row.delta, line);
      const words = row.reason || row.changes.join("; ");
      if (words) made("p", "", words, line);
    }
  };
  list(rows.filter((row) => !row.edge).sort((a, b) => (a.delta_s === null) - (b.delta_s === null) || a.delta_s - b.delta_s), "");
  list(rows.filter((row) => row.edge), "If the stage's edge moved");
}

/* A line for every question, what stands against the plan first. */
export function review(place, report) {
  const rank = ["fail", "warn", "pass"];
  const body = made("table", "review-lines");
  for (const line of [...report.lines].sort((a, b) => rank.indexOf(a.verdict) - rank.indexOf(b.verdict))) {
    const row = made("tr", "", null, body);
    made("td", "verdict-mark " + line.verdict, line.verdict, row);
    made("th", "", line.what, row, { scope: "row" });
    made("td", "reason", line.reason, row);
  }
  place.replaceChildren(body);
}

export function difference(place, lines) {
  place.replaceChildren(made("pre", "difference", lines.join("\n")));
}

/* reveal(operator, from_s, to_s): show a span of the critical path. */
export function why(place, reasons, order, reveal) {
  const parts = [made("h2", "", "Why this plan"), made("p", "", unbroken(reasons.headline))];
  const stack = made("div", "stack", null, null, { "aria-hidden": "true" });
  for (const one of reasons.parts) if (one.share) made("i", part(one), null, stack).style.flexGrow = one.share;
  const list = made("ul", "parts");
  for (const one of reasons.parts) {
    const line = made("li", "", null, list);
    made("i", part(one), null, line);
    line.append(one.name);
    made("b", "", one.text, line);
  }
  parts.push(stack, list, made("div", "bind", unbroken(reasons.binding)));
  if (order) parts.push(made("p", "order small", unbroken(order)));
  if (reasons.heaviest.length) {
    parts.push(made("h3", "", "Longest on the path"));
    const heavy = made("div", "heaviest");
    for (const row of reasons.heaviest) {
      const button = made("button", "heavy", null, heavy, { title: row.name + ": show it in the schedule and in the graph" });
      made("span", "", row.name, button);
      made("b", "", row.text, button);
      button.addEventListener("click", () => reveal(row.operator, row.start_s, row.end_s));
    }
    parts.push(heavy);
  }
  const gauge = made("div", "gauge", null, null, { "aria-hidden": "true" });
  const at = reasons.bound_share * 94 + "%";
  made("i", "track", null, gauge);
  made("i", "fill", null, gauge).style.width = at;
  made("i", "at bound", null, gauge).style.left = at;
  made("i", "at plan", null, gauge).style.left = "94%";
  const ends = made("div", "spread small quiet");
  made("span", "", "bound " + reasons.bound, ends);
  made("span", "", "plan " + reasons.objective, ends);
  parts.push(made("h2", "", "Proved"), gauge, ends, made("p", "small quiet", reasons.proof));
  for (const note of reasons.notes) parts.push(made("p", "small quiet", note));
  place.replaceChildren(...parts);
}

/* act(kind, argument): expand, collapse, or pin to a device ("" unpins). */
export function inspector(place, selected, act) {
  const parts = [made("h2", "", "Selected")];
  if (!selected || !selected.facts) {
    parts.push(made("p", "small quiet", "Hover or click a box, a bar or a device to see where it runs."));
    place.replaceChildren(...parts);
    return;
  }
  const facts = selected.facts;
  const head = made("div", "picked");
  made("b", "", facts.title, head).title = facts.title;
  for (const tag of facts.tags) made("span", "tag", tag, head);
  const list = made("dl");
  for (const [name, value] of facts.rows) { made("dt", "", name, list); made("dd", "", value, list); }
  const actions = made("div", "actions");
  for (const [verb, argument, label] of facts.actions) {
    made("button", "tool", label, actions).addEventListener("click", () => act(verb, argument));
  }
  if (selected.can_pin) {
    const label = made("label", "pin-to", null, actions);
    made("span", "label", "Pin to", label);
    const select = made("select", "", null, label, { "aria-label": "Pin " + facts.title + " to a device" });
    made("option", "", "not pinned", select, { value: "" });
    selected.devices.forEach((name, device) => made("option", "", name, select, { value: String(device) }));
    select.value = selected.pinned === null ? "" : String(selected.pinned);
    select.addEventListener("change", () => act("pin", select.value));
  }
  const here = made("div", "why-here");
  if (selected.kind !== "device" && selected.can_pin) {
    made("button", "tool", "What if it were elsewhere?", here).addEventListener("click", () => act("elsewhere", ""));
  }
  place.replaceChildren(...parts, head, list, actions, here);
}

/* ways: changes under which there is a plan, and how the look for them stands. use(bytes): set the cap at which a plan was
   found; go(place): ask with a remedy. */
export function banner(place, refusal, ways, use, go) {
  place.hidden = !refusal;
  place.replaceChildren();
  if (!refusal) return;
  made("b", "", refusal.title, place);
  for (const line of refusal.lines) made("span", "", line, place);
  if (refusal.cap) made("button", "tool", refusal.cap.words, place).addEventListener("click", () => use(refusal.cap.bytes));
  if (!ways) return;
  const list = made("ul", "helps ways", null, ways.list.length ? place : null);
  ways.list.forEach(function (way, i) {
    const line = made("li", "", null, list);
    made("span", "", way.change, line);
    made("span", "none", way.held, line);
    made("b", "", way.took, line);
    made("button", "tool strong", "Go", line, { "aria-label": `Go to: ${way.change}, ${way.took}` }).addEventListener("click", () => go(i));
  });
  if (ways.words) made("span", "small quiet", ways.words, place);
}

const COLUMNS = [["objective", "Objective"], ["gap", "Gap"], ["bound", "Bound"], ["word", "Status"], ["peak", "Peak memory"], ["runtime", "Solver time"]];

/* Planners side by side, the best first; a press on a name shows its plan. */
export function comparison(place, compared, send) {
  const head = made("p", "small quiet compared", compared.going ? compared.going + " " : compared.words);
  if (compared.going) made("button", "tool", "Stop", head).addEventListener("click", () => send({ type: "stop" }));
  const table = made("table", "comparison");
  made("caption", "sr", "Planners compared", table);
  const titles = made("tr", "", null, made("thead", "", null, table));
  for (const title of ["Planner", ...COLUMNS.map((column) => column[1])]) made("th", title === "Planner" || title === "Status" ? "" : "n", title, titles, { scope: "col" });
  const body = made("tbody", "", null, table);
  for (const row of compared.rows) {
    const line = made("tr", row.current ? "current" : "", null, body);
    const name = made("th", "", null, line, { scope: "row" });
    const what = `${row.guarantee}; ${row.source}`;
    if (row.can_show) made("button", "row-link", row.planner, name, { title: `Show this plan (${what})` }).addEventListener("click", () => send({ type: "show", place: row.place }));
    else made("span", "", row.planner, name, { title: what });
    if (row.best) made("span", "tag", "best", name);
    if (row.alike) made("span", "tag", "alike", name, { title: "Not distinguished from the best: what they do otherwise is estimated to no better than their times differ" });
    if (row.current) made("span", "tag plain", "shown", name);
    for (const [key] of COLUMNS) made("td", key === "word" ? "" : "n", row[key], line);
  }
  const rest = made("details", "more left-out");
  const names = compared.left_out.flatMap((out) => out.planners.split(", "));
  made("summary", "small quiet", `${names.length === 1 ? "1 planner" : names.length + " planners"} cannot be asked here`, rest);
  for (const out of compared.left_out) {
    const line = made("p", "small", null, rest);
    made("b", "", out.planners, line);
    line.append(` ${out.status}: ${out.reason}`);
  }
  table.hidden = !compared.rows.length;
  place.replaceChildren(head, table, ...(names.length ? [rest] : []));
}

/* What is pinned, each with a button that lets it go, and what the newest pin costs. */
export function pins(place, pinned, cost, unpin) {
  place.replaceChildren();
  if (cost) made("p", "small", cost, place);
  for (const [name, device] of pinned) {
    const chip = made("span", "pin-chip", `${name} on ${device}`, place);
    made("button", "tool", "×", chip, { "aria-label": `Unpin ${name}` }).addEventListener("click", () => unpin(name));
  }
}

const FIRST_STEPS = 6; /* of a chain that are in sight at once */

/* What an idle device waits for, backwards in time. */
export function waits(place, chain) {
  const head = made("div", "picked");
  made("i", "swatch s" + (chain.device % 64), null, head);
  made("b", "", chain.title, head);
  const list = (steps) => {
    const ol = made("ol", "wait-steps");
    for (const step of steps) {
      const line = made("li", "", null, ol);
      made("i", `swatch s${step.device % 64} ${step.kind}`, null, line);
      const words = made("span", "", null, line);
      made("span", "", step.words, words);
      if (step.note) made("span", "quiet", step.note, words);
      made("b", "", step.took, line);
    }
    return ol;
  };
  const rest = chain.steps.slice(FIRST_STEPS, 200);
  const more = made("details", "more wait-more");
  made("summary", "", rest.length === 1 ? "1 step before" : rest.length + " steps before", more);
  more.append(list(rest));
  place.replaceChildren(made("h2", "", "Waits"), head, made("p", "small quiet", chain.when),
    made("p", "small quiet wait-head", "Backwards in time, each let the one above begin:"), list(chain.steps.slice(0, FIRST_STEPS)),
    ...(rest.length ? [more] : []), made("p", "small wait-start", chain.started));
}

/* What the colours of boxes mean while they show numbers of somebody's own. */
export function numbered(place, values) {
  place.replaceChildren();
  if (!values) return;
  made("b", "", values.title === "node_data" ? "Your numbers" : values.title, place);
  const stops = made("span", "stops", null, place);
  for (const stop of values.stops) {
    const one = made("span", "stop", null, stops);
    made("i", "", null, one).style.background = stop.fill;
    made("span", "", stop.label, one);
  }
  made("span", "", values.note, place);
}
