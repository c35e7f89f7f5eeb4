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
const part = (told) => (told.device >= 0 ? "part s" + (told.device % 64) : "part " + told.key);

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
export function review(place, told) {
  const rank = ["fail", "warn", "pass"];
  const body = made("table", "review-lines");
  for (const line of [...told.lines].sort((a, b) => rank.indexOf(a.verdict) - rank.indexOf(b.verdict))) {
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
export function why(place, told, order, reveal) {
  const found = [made("h2", "", "Why this plan"), made("p", "", unbroken(told.headline))];
  const stack = made("div", "stack", null, null, { "aria-hidden": "true" });
  for (const one of told.parts) if (one.share) made("i", part(one), null, stack).style.flexGrow = one.share;
  const list = made("ul", "parts");
  for (const one of told.parts) {
    const line = made("li", "", null, list);
    made("i", part(one), null, line);
    line.append(one.name);
    made("b", "", one.text, line);
  }
  found.push(stack, list, made("div", "bind", unbroken(told.binding)));
  if (order) found.push(made("p", "order small", unbroken(order)));
  if (told.heaviest.length) {
    found.push(made("h3", "", "Longest on the path"));
    const heavy = made("div", "heaviest");
    for (const row of told.heaviest) {
      const button = made("button", "heavy", null, heavy, { title: row.name + ": show it in the schedule and in the graph" });
      made("span", "", row.name, button);
      made("b", "", row.text, button);
      button.addEventListener("click", () => reveal(row.operator, row.start_s, row.end_s));
    }
    found.push(heavy);
  }
  const gauge = made("div", "gauge", null, null, { "aria-hidden": "true" });
  const at = told.bound_share * 94 + "%";
  made("i", "track", null, gauge);
  made("i", "fill", null, gauge).style.width = at;
  made("i", "at bound", null, gauge).style.left = at;
  made("i", "at plan", null, gauge).style.left = "94%";
  const ends = made("div", "spread small quiet");
  made("span", "", "bound " + told.bound, ends);
  made("span", "", "plan " + told.objective, ends);
  found.push(made("h2", "", "Proved"), gauge, ends, made("p", "small quiet", told.proof));
  for (const note of told.notes) found.push(made("p", "small quiet", note));
  place.replaceChildren(...found);
}

/* act(kind, argument): expand, collapse, or pin to a device ("" unpins). */
export function inspector(place, selected, act) {
  const found = [made("h2", "", "Selected")];
  if (!selected || !selected.facts) {
    found.push(made("p", "small quiet", "Hover or click a box, a bar or a device to see where it runs."));
    place.replaceChildren(...found);
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
  place.replaceChildren(...found, head, list, actions, here);
}

/* use(bytes): set the cap at which a plan was found. */
export function banner(place, told, use) {
  place.hidden = !told;
  place.replaceChildren();
  if (!told) return;
  made("b", "", told.title, place);
  for (const line of told.lines) made("span", "", line, place);
  if (told.cap) made("button", "tool strong", told.cap.words, place).addEventListener("click", () => use(told.cap.bytes));
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
