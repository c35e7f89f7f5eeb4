/* Pins: what is selected is kept on a device (p and a digit, or a button), or together with something else (t, or a
   button, then the other). Chips say what is kept. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const WAIT_MS = 3000; /* between p and the number */
  const NOTHING = { pins: {}, together: [] };
  const MORE_MS = 650; /* for a second digit, where there are more than ten devices */
  let pins = {};
  let together = []; /* lists of names */
  let armed = 0;
  let digits = "";
  let timer = null;

  function draw() {
    const place = document.getElementById("pinned");
    const names = Object.keys(pins).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    place.replaceChildren();
    place.parentElement.hidden = !names.length && !together.length;
    for (const name of names) {
      const without = { ...pins };
      delete without[name];
      place.appendChild(chip("s" + (pins[name] % 64), name + " → " + pins[name], name + " is kept on device " + pins[name], "Unpin " + name, { pins: without }));
    }
    for (const group of together) {
      const without = together.filter((other) => other !== group);
      place.appendChild(chip("tied", group.join(" + "), group.join(", ") + " share one device, whichever it is", "Let " + group.join(" and ") + " part", { together: without }));
    }
    document.getElementById("unpin-all").hidden = names.length + together.length < 2;
  }

  /* What is kept, with a button after which only `left` is. */
  function chip(colour, text, title, undo, left) {
    const made = document.createElement("div");
    made.className = "opened";
    const words = document.createElement("span");
    words.textContent = text;
    words.title = title;
    const swatch = document.createElement("i");
    swatch.className = "swatch " + colour;
    const out = document.createElement("button");
    out.className = "tool";
    out.textContent = "×";
    out.setAttribute("aria-label", undo);
    out.addEventListener("click", () => ex.putPins(left));
    made.append(swatch, words, out);
    return made;
  }

  /* What the page keeps from now on, {pins, together}: what is left out stays. Whoever calls asks for a plan. */
  function take(next) {
    if (next.pins) pins = next.pins;
    if (next.together) together = next.together;
    if (document.getElementById("pinned")) draw();
  }

  function parsed(text) {
    try { return JSON.parse(text); } catch { return null; }
  }

  /* What a link says. */
  function read(given) {
    const stored = parsed(given.get("pins"));
    const groups = parsed(given.get("together"));
    const named = (group) => Array.isArray(group) && group.every((name) => typeof name === "string");
    return {
      pins: stored && typeof stored === "object" && !Array.isArray(stored) ? stored : {},
      together: Array.isArray(groups) ? groups.filter(named) : [],
    };
  }

  /* What a question says. */
  const write = () => ({
    pins: Object.keys(pins).length ? JSON.stringify(pins) : null,
    together: together.length ? JSON.stringify(together) : null,
  });

  function answered(message) {
    document.getElementById("announcer").textContent = message.words;
    ex.putPins({ pins: message.pins, together: message.together });
  }

  function pin(device) { ex.send({ type: "pin", device: device }); }

  function arm(on) {
    armed = on ? performance.now() : 0;
    digits = "";
    clearTimeout(timer);
    document.body.classList.toggle("pinning", on);
    if (on) timer = setTimeout(() => arm(false), WAIT_MS);
  }

  function keys(event) {
    const typing = event.target.closest && event.target.closest("input, textarea, select, dialog, [contenteditable], [role=slider]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!armed) {
      if (event.key === "t") ex.send({ type: "together" });
      else if (event.key === "p") arm(true);
      else if (event.key === "x") pin(null);
      else return;
    } else if (/^[0-9]$/.test(event.key)) {
      digits += event.key;
      clearTimeout(timer);
      const go = () => { const device = +digits; arm(false); pin(device); };
      if (document.querySelectorAll("[data-pin]").length <= 11 || digits.length === 2) go();
      else timer = setTimeout(go, MORE_MS);
    } else if (event.key === "x" || event.key === "Delete" || event.key === "Backspace") { arm(false); pin(null); }
    else { arm(false); return; }
    event.preventDefault();
    event.stopPropagation();
  }

  function listen() {
    document.addEventListener("keydown", keys, true);
    document.addEventListener("click", function (event) {
      const button = event.target.closest && event.target.closest("[data-pin]");
      if (button) pin(button.dataset.pin === "none" ? null : +button.dataset.pin);
      if (event.target.closest && event.target.closest("[data-together]")) ex.send({ type: "together" });
      const row = event.target.closest && event.target.closest("[data-pick]");
      if (!row) return;
      const [kind, id] = [row.dataset.pick, row.dataset.arg];
      if (kind === "box") ex.graph.select(id);
      else ex.send({ type: "select", kind: kind, id: id });
    });
    document.getElementById("unpin-all").addEventListener("click", () => ex.putPins(NOTHING));
    draw();
  }

  ex.pins = { take, read, write, answered, listen, all: () => ({ pins, together }), NOTHING };
})();
