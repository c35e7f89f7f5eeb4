/* What is asked, as native controls, which the kernel lists as they are declared: each sends the kernel its new value, which answers with what now stands. */
import { made } from "./html.js";

const NUMBER = { type: "text", inputmode: "numeric", size: "4", autocomplete: "off", spellcheck: "false" };
const TEXT = { type: "text", size: "8", autocomplete: "off", spellcheck: "false" };
/* send(message) to the kernel. Returns draw(listed, state). */
export function controls(place, send) {
  const fields = {};
  const row = made("div", "controls", null, place, { role: "group", "aria-label": "What is asked" });
  const more = made("details", "more-controls", null, row);
  made("summary", "tool", "More", more);
  const rest = made("div", "controls", null, more);
  made("span", "spring", null, row);
  const acts = made("span", "acts", null, row);
  const solve = made("button", "tool strong", "Solve", acts, { title: "Solve again" });
  const cancel = made("button", "tool", "Cancel", acts, { title: "Stop the search; its best plan stays" });
  solve.addEventListener("click", () => send({ type: "solve" }));
  cancel.addEventListener("click", () => send({ type: "cancel" }));
  const note = made("p", "refused small", "", place, { role: "alert" });

  function build(listed) {
    for (const [name, label, kind, where] of listed.fields) {
      if (where === "more") field(rest, name, label, kind);
      else row.insertBefore(field(null, name, label, kind), more);
    }
  }

  function field(parent, name, label, kind) {
    const box = made("label", "field", null, parent);
    made("span", "label", label, box);
    if (kind === "choice") {
      const select = made("select", "", null, box, { name });
      select.addEventListener("change", () => set(name, select.value));
      fields[name] = { control: select, kind };
      return box;
    }
    if (kind === "switch") {
      const check = made("input", "", null, box, { type: "checkbox", name });
      check.addEventListener("change", () => set(name, check.checked));
      fields[name] = { control: check, kind };
      return box;
    }
    const line = made("span", "entry", null, box);
    const input = made("input", "", null, line, { ...(kind === "text" ? TEXT : NUMBER), name });
    const commit = function () {
      const typed = input.value.trim();
      if (typed === input.dataset.stands) return;
      input.dataset.stands = typed; /* until the kernel says what stands */
      set(name, typed);
    };
    input.addEventListener("change", commit);
    input.addEventListener("keydown", function (event) {
      if (event.key === "Enter") commit(); /* not every notebook lets a change event come of it */
      if (event.key === "Escape") { input.value = input.dataset.stands || ""; return; }
      const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (kind !== "step" || !by) return;
      event.preventDefault();
      step(name, by);
    });
    if (kind === "step") for (const [words, by] of [["−", -1], ["+", 1]]) {
      const button = made("button", "tool", words, line, { type: "button", "aria-label": by > 0 ? "One GPU more" : "One GPU less" });
      button.addEventListener("click", function (event) { event.preventDefault(); step(name, by); });
    }
    fields[name] = { control: input, kind };
    return box;
  }

  function step(name, by) {
    const input = fields[name].control;
    const next = Number(input.value || input.placeholder) + by;
    if (Number.isInteger(next) && next > 0) { input.value = next; input.dataset.stands = String(next); set(name, String(next)); }
  }

  const set = (name, value) => send({ type: "set", name, value });

  function options(select, choices) {
    const key = JSON.stringify(choices);
    if (select.dataset.choices === key) return;
    select.dataset.choices = key;
    select.replaceChildren(...choices.map(([value, label, title]) => {
      const option = made("option", "", label, null, { value });
      if (title) option.title = title;
      return option;
    }));
  }

  return function (listed, state) {
    if (!listed.fields) return;
    if (!rest.children.length) build(listed);
    const typing = place.getRootNode().activeElement;
    for (const [name, value] of Object.entries(listed.values)) {
      const { control, kind } = fields[name];
      if (kind === "choice") options(control, listed.choices[name]);
      if (kind === "switch") control.checked = value;
      else if (control !== typing || kind === "choice" || state.refused || control.value === control.dataset.stands) control.value = value;
      control.dataset.stands = value;
      if (listed.defaults[name]) control.placeholder = listed.defaults[name];
      control.disabled = listed.given;
      control.setAttribute("aria-invalid", String(state.refused !== null && state.refused.name === name));
    }
    note.textContent = state.refused ? state.refused.message : "";
    cancel.disabled = !state.busy;
    solve.disabled = state.busy;
  };
}
