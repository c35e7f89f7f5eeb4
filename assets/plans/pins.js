/* Pins: what is selected is kept on a device. p and a digit, or a button; chips say what is pinned. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const WAIT_MS = 3000; /* between p and the number */
  const MORE_MS = 650; /* for a second digit, where there are more than ten devices */
  let pins = {};
  let armed = 0;
  let digits = "";
  let timer = null;

  function draw() {
    const place = document.getElementById("pinned");
    const names = Object.keys(pins).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    place.replaceChildren();
    place.parentElement.hidden = !names.length;
    for (const name of names) {
      const chip = document.createElement("div");
      chip.className = "opened";
      const words = document.createElement("span");
      words.textContent = name + " → " + pins[name];
      words.title = name + " is kept on device " + pins[name];
      const swatch = document.createElement("i");
      swatch.className = "swatch s" + (pins[name] % 32);
      const out = document.createElement("button");
      out.className = "tool";
      out.textContent = "×";
      out.setAttribute("aria-label", "Unpin " + name);
      out.addEventListener("click", function () { const next = { ...pins }; delete next[name]; ex.putPins(next); });
      chip.append(swatch, words, out);
      place.appendChild(chip);
    }
    document.getElementById("unpin-all").hidden = names.length < 2;
  }

  /* The page's pins from now on; whoever calls asks for a plan. */
  function take(next) {
    pins = next;
    if (document.getElementById("pinned")) draw();
  }

  function read(text) {
    try {
      const found = JSON.parse(text);
      return found && typeof found === "object" && !Array.isArray(found) ? found : {};
    } catch { return {}; }
  }

  const write = () => (Object.keys(pins).length ? JSON.stringify(pins) : null);

  function told(message) {
    document.getElementById("announcer").textContent = message.words;
    ex.putPins(message.pins);
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
      if (event.key !== "p") return;
      arm(true);
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
      const row = event.target.closest && event.target.closest("[data-pick]");
      if (!row) return;
      const [kind, id] = [row.dataset.pick, row.dataset.arg];
      if (kind === "box") ex.graph.select(id);
      else ex.send({ type: "select", kind: kind, id: id });
    });
    document.getElementById("unpin-all").addEventListener("click", () => ex.putPins({}));
    draw();
  }

  ex.pins = { take, read, write, told, listen, all: () => pins };
})();
