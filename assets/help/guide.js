/* Help: a dialog of keys and words, and the words beside whatever names one by data-term. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const WAIT_MS = 420;
  const NEXT_MS = 80; /* from one to the next, while one is shown */
  const GAP_PX = 8;
  const POINTED_MS = 600; /* a click that moves the focus asks for no words */
  let timer = null;
  let pointed = -POINTED_MS;
  let shown = null;
  let next = null;
  let tip = null;
  const dialog = () => document.getElementById("guide");
  const word = (key) => document.querySelector('#guide [data-word="' + key + '"]');

  function hide() {
    clearTimeout(timer);
    timer = shown = next = null;
    if (tip) tip.hidden = true;
  }

  /* Beside a control of the left rail, below anything else; never out of the window. */
  function place(target) {
    const at = target.getBoundingClientRect();
    const own = tip.getBoundingClientRect();
    const beside = target.closest(".rail.left") && at.right + GAP_PX + own.width < innerWidth;
    const left = beside ? at.right + GAP_PX : Math.min(at.left, innerWidth - own.width - GAP_PX);
    const below = beside ? at.top + at.height / 2 - own.height / 2 : at.bottom + GAP_PX;
    const top = !beside && below + own.height > innerHeight ? at.top - own.height - GAP_PX : below;
    tip.style.left = Math.max(GAP_PX, left) + "px";
    tip.style.top = Math.min(Math.max(GAP_PX, top), innerHeight - own.height - GAP_PX) + "px";
  }

  function show(target) {
    const entry = word(target.dataset.term);
    if (!entry || !target.isConnected) return;
    if (!tip) {
      tip = document.createElement("div");
      tip.className = "tip";
      tip.setAttribute("aria-hidden", "true"); /* the control is described by the entry itself */
      document.body.appendChild(tip);
    }
    const head = document.createElement("b");
    head.textContent = entry.querySelector("dt").textContent;
    tip.replaceChildren(head, document.createTextNode(entry.querySelector("dd").textContent));
    tip.hidden = false;
    shown = target;
    place(target);
  }

  function soon(target) {
    if (target === shown || target === next) return;
    next = target;
    const wait = shown ? NEXT_MS : WAIT_MS;
    clearTimeout(timer);
    timer = setTimeout(() => show(target), wait);
  }

  const named = (event) => (event.target.closest ? event.target.closest("[data-term]") : null);

  function filter(text) {
    const wanted = text.trim().toLowerCase();
    for (const entry of dialog().querySelectorAll(".word")) entry.hidden = !entry.textContent.toLowerCase().includes(wanted);
    for (const part of dialog().querySelectorAll(".words section")) part.hidden = !part.querySelector(".word:not([hidden])");
  }

  function open() {
    hide();
    if (!dialog().open) dialog().showModal();
  }

  function listen() {
    document.addEventListener("pointermove", function (event) {
      const target = named(event);
      if (target) soon(target);
      else hide();
    });
    document.addEventListener("pointerdown", function () { pointed = performance.now(); hide(); }, true);
    document.addEventListener("focusin", function (event) {
      const target = named(event);
      if (!target) return hide();
      event.target.setAttribute("aria-describedby", "word-" + target.dataset.term);
      if (event.target.matches(":focus-visible") && performance.now() - pointed > POINTED_MS) soon(target);
    });
    document.addEventListener("scroll", function () { if (shown) hide(); }, true);
    document.addEventListener("keydown", function (event) {
      if (event.key === "Escape") hide();
      const writes = event.target.closest && event.target.closest("input, textarea, select, [contenteditable]");
      if (event.key === "?" && !writes && !event.ctrlKey && !event.metaKey && !event.altKey) { open(); event.preventDefault(); }
    });
    document.getElementById("guide-open").addEventListener("click", open);
    dialog().addEventListener("click", function (event) {
      if (event.target === dialog() || event.target.closest("[data-close]")) dialog().close();
    });
  }

  /* The dialog, from words that the server has. */
  function fill(words) {
    if (dialog().firstChild) return;
    const make = function (name, className, text, parent) {
      const made = document.createElement(name);
      made.className = className;
      made.textContent = text;
      parent.appendChild(made);
      return made;
    };
    const head = make("div", "spread", "", dialog());
    make("h2", "", "Help", head);
    make("button", "tool", "Close", head).dataset.close = "guide";
    const seen = make("dl", "kinds-list", "", dialog());
    for (const [name, what] of words.seen) { make("dt", "", name, seen); make("dd", "", what, seen); }
    make("h3", "", "Keys", dialog());
    const keys = make("dl", "keys", "", dialog());
    for (const [key, what] of words.keys) { make("kbd", "", key, make("dt", "", "", keys)); make("dd", "", what, keys); }
    const title = make("div", "spread", "", dialog());
    make("h3", "", "Words", title);
    const find = make("input", "", "", title);
    find.type = "search";
    find.placeholder = "Look up a word";
    find.setAttribute("aria-label", "Look up a word");
    find.addEventListener("input", () => filter(find.value));
    const all = make("div", "words", "", dialog());
    for (const [part, terms] of words.parts) {
      const section = make("section", "", "", all);
      make("h4", "", part, section);
      const list = make("dl", "", "", section);
      for (const [key, name, meaning] of terms) {
        const entry = make("div", "word", "", list);
        entry.dataset.word = key;
        make("dt", "", name, entry);
        make("dd", "", meaning, entry).id = "word-" + key;
      }
    }
    make("p", "small quiet", "Point at a control or a figure to see its own.", dialog());
  }

  ex.guide = { listen, fill, open };
})();
