/* Long lists can be searched: where one would unfold, a field opens that filters it by name, group and note, each word
   somewhere. The list itself stays HTML's own: it holds the value, arrows change it in place, and fingers unfold it. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const MANY = 12; /* of a list: with more than that it is searched */
  const WIDTH_PX = 330;
  const HEIGHT_PX = 340;
  const GAP_PX = 4; /* from the list, and from the edge of the window */
  let select = null; /* the one that is open */
  let panel = null;
  let input = null;
  let list = null;
  let note = null;
  let shown = []; /* options that are listed */
  let at = 0;
  let touched = false;

  const long = (target) => target.closest && [target.closest("select.field")].find((one) => one && !one.disabled && one.options.length > MANY);
  const group = (option) => (option.parentElement.label ? option.parentElement.label : "");

  function build() {
    panel = ex.element("div", "chooser", "", document.body);
    panel.hidden = true;
    input = ex.element("input", "field", "", panel);
    const attributes = { type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "chooser-list", autocomplete: "off", spellcheck: "false", maxlength: "80", placeholder: "Search" };
    for (const name of Object.keys(attributes)) input.setAttribute(name, attributes[name]);
    list = ex.element("ul", "", "", panel);
    list.id = "chooser-list";
    list.setAttribute("role", "listbox");
    note = ex.element("p", "small quiet", "", panel);
    note.setAttribute("role", "status");
    input.addEventListener("input", draw);
    input.addEventListener("keydown", onKey);
    input.addEventListener("blur", () => close(false));
  }

  /* What fits, names that begin with it first. */
  function matches(wanted) {
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...select.options].filter((option) => !option.disabled);
    if (!words.length) return all;
    const rank = (name) => (name.startsWith(words[0]) ? 0 : name.includes(words[0]) ? 1 : 2);
    const text = (option) => [option.text, group(option), option.title].join(" ").toLowerCase();
    return all.filter((option) => words.every((word) => text(option).includes(word)))
      .sort((a, b) => rank(a.text.toLowerCase()) - rank(b.text.toLowerCase()));
  }

  function draw() {
    const wanted = input.value.trim();
    shown = matches(wanted);
    list.replaceChildren();
    let heading = "";
    shown.forEach(function (option, i) {
      if (!wanted && group(option) !== heading) {
        heading = group(option);
        ex.element("li", "heading", heading, list).setAttribute("role", "presentation");
      }
      const row = ex.element("li", "", "", list);
      row.id = "chooser-" + i;
      row.setAttribute("role", "option");
      ex.element("b", "", option.text, row);
      const more = [option.title, wanted ? group(option) : ""].filter(Boolean).join(" · ");
      if (more) ex.element("span", "", more, row);
      row.addEventListener("mousedown", function (event) { event.preventDefault(); pick(i); });
    });
    note.textContent = !wanted ? "" : shown.length ? shown.length + " of " + select.options.length : "Nothing in this list has that.";
    mark(wanted ? 0 : Math.max(0, shown.indexOf(select.selectedOptions[0])));
  }

  function mark(which) {
    at = which;
    list.querySelectorAll('[role="option"]').forEach((row, i) => row.setAttribute("aria-selected", String(i === at)));
    const row = document.getElementById("chooser-" + at);
    if (row) input.setAttribute("aria-activedescendant", row.id);
    else input.removeAttribute("aria-activedescendant");
    if (row) row.scrollIntoView({ block: "nearest" });
  }

  function pick(which) {
    const option = shown[which];
    const from = select;
    close(true);
    if (!option || option.selected) return;
    from.value = option.value;
    from.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function onKey(event) {
    const last = shown.length - 1;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: Math.min(last, at + 8), PageUp: Math.max(0, at - 8) }[event.key];
    event.stopPropagation(); /* keys of the page mean nothing here */
    if (to !== undefined && shown.length) mark((to + shown.length) % shown.length);
    else if (event.key === "Enter") pick(at);
    else if (event.key === "Escape") close(true);
    else {
      if (event.key === "Tab") close(true); /* and on from the list */
      return;
    }
    event.preventDefault();
  }

  function open(from, typed) {
    if (!panel) build();
    select = from;
    const name = from.getAttribute("aria-label") || "";
    input.setAttribute("aria-label", "Search: " + name);
    list.setAttribute("aria-label", name);
    const box = from.getBoundingClientRect();
    const below = innerHeight - box.bottom - 2 * GAP_PX;
    const over = below < HEIGHT_PX && box.top > below;
    const tall = Math.min(HEIGHT_PX, over ? box.top - 2 * GAP_PX : below);
    const wide = Math.min(Math.max(WIDTH_PX, box.width), innerWidth - 2 * GAP_PX);
    Object.assign(panel.style, {
      left: Math.max(GAP_PX, Math.min(box.left, innerWidth - wide - GAP_PX)) + "px", width: wide + "px", maxHeight: tall + "px",
      top: over ? "auto" : box.bottom + GAP_PX + "px", bottom: over ? innerHeight - box.top + GAP_PX + "px" : "auto",
    });
    panel.hidden = false;
    input.value = typed;
    draw();
    input.focus({ preventScroll: true });
  }

  /* back: the list that was searched has the focus again. */
  function close(back) {
    if (!panel || panel.hidden) return;
    panel.hidden = true;
    if (back) select.focus({ preventScroll: true });
  }

  function listen() {
    document.addEventListener("pointerdown", function (event) { touched = event.pointerType === "touch"; }, true);
    document.addEventListener("mousedown", function (event) {
      const chooser = long(event.target);
      if (!chooser || event.button !== 0 || !event.isTrusted || touched) return;
      event.preventDefault();
      if (panel && !panel.hidden && select === chooser) close(true);
      else open(chooser, "");
    });
    document.addEventListener("keydown", function (event) {
      const chooser = long(event.target);
      if (!chooser || event.ctrlKey || event.metaKey) return;
      const written = event.key.length === 1 && event.key !== " " && !event.altKey;
      const unfolded = event.key === "Enter" || event.key === " " || event.key === "F4" || (event.altKey && event.key === "ArrowDown");
      if (!written && !unfolded) return;
      event.preventDefault();
      open(chooser, written ? event.key : "");
    });
    window.addEventListener("resize", () => close(false));
  }

  ex.chooser = { listen };
})();
