/* Per-GPU settings: a table of kinds and caps that takes the place of the controls for all of them. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const SHARED = ["kind", "memory", "memory-field", "kind-two", "kind-two-count"]; /* controls for all GPUs */
  let each = null; /* [{kind, cap}], cap in bytes or null for all that the kind has; null: they are alike */
  let alike = { kinds: [], caps: [] }; /* what the controls for all of them say */
  let drawn = "";

  const rows = () => each || alike.kinds.map((kind, i) => ({ kind: kind, cap: alike.caps[i] }));

  /* What the question says in place of the controls for all; nothing while they are alike. */
  function write() {
    if (each === null) return {};
    const kinds = [];
    for (const { kind } of each) {
      const last = kinds[kinds.length - 1];
      if (last && last[1] === kind) last[0]++;
      else kinds.push([1, kind]);
    }
    const caps = each.map((gpu) => gpu.cap);
    const one = caps.every((cap) => cap === caps[0]);
    return {
      device_kind: kinds.length === 1 ? kinds[0][1] : kinds.map(([count, kind]) => (count > 1 ? count + "x" : "") + kind).join(","),
      memory: one ? caps[0] : caps.map((cap, i) => cap || ex.ownMemory[each[i].kind]).join(","),
    };
  }

  /* As many as the slider says; a new one is like the last. kinds and caps: of the controls for all. */
  function follow(count, kinds, caps) {
    alike = { kinds: kinds, caps: caps };
    if (each !== null && each.length !== count) {
      const last = each[each.length - 1];
      each = Array.from({ length: count }, (_, i) => each[i] || { ...last });
    }
    draw();
  }

  function take(next) {
    each = next;
    for (const id of SHARED) window.dash_clientside.set_props(id, { disabled: each !== null });
    draw();
  }

  function set(place, change) {
    const next = rows().map((gpu) => ({ ...gpu }));
    Object.assign(next[place], change);
    const own = ex.sizes.own(next[place].kind);
    if (next[place].cap !== null && next[place].cap >= own) next[place].cap = null;
    take(next);
    ex.touched();
  }

  function cell(row, child) {
    const made = document.createElement("td");
    made.appendChild(child);
    row.appendChild(made);
  }

  function line(gpu, place) {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = String(place);
    row.appendChild(head);
    const kind = document.createElement("select");
    kind.setAttribute("aria-label", "Kind of GPU " + place);
    for (const name of ex.kinds) kind.add(new Option(name, name, false, name === gpu.kind));
    kind.addEventListener("change", () => set(place, { kind: kind.value }));
    cell(row, kind);
    const cap = document.createElement("input");
    cap.value = ex.sizes.shown(gpu.cap === null ? ex.sizes.own(gpu.kind) : gpu.cap);
    cap.setAttribute("aria-label", "Memory cap of GPU " + place + ", with its unit: 16 GiB, 512 MiB or 80 GB");
    cap.spellcheck = false;
    cap.addEventListener("change", function () {
      const bytes = ex.sizes.parsed(cap.value);
      cap.setAttribute("aria-invalid", String(bytes === null));
      cap.title = bytes === null ? "a size, such as 16 GiB or 512 MiB" : "";
      if (bytes !== null) set(place, { cap: bytes });
    });
    cell(row, cap);
    return row;
  }

  /* The table, where it is open or says something; not while somebody types into it and nothing changed. */
  function draw() {
    const place = document.getElementById("fleet");
    if (!place) return;
    const frame = place.closest("details");
    document.getElementById("fleet-note").textContent = each === null ? "" : "set for each";
    document.getElementById("fleet-alike").hidden = each === null;
    const now = frame.open ? JSON.stringify(rows()) : "";
    if (now === drawn) return;
    drawn = now;
    const at = document.activeElement && place.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    place.replaceChildren(...(frame.open ? rows().map(line) : []));
    const again = at && [...place.querySelectorAll("[aria-label]")].find((control) => control.getAttribute("aria-label") === at);
    if (again) again.focus({ preventScroll: true });
  }

  /* A link's kinds and caps, where the controls for all of them cannot say them. */
  function read(kinds, memory) {
    const named = kinds && memory !== null ? kinds.every((kind) => ex.ownMemory[kind]) : false;
    const caps = memory === null ? [] : memory.split(",").map(Number);
    const fits = caps.length === 1 || (kinds && caps.length === kinds.length);
    if (!named || !fits || !caps.every((cap) => cap >= 0)) return;
    take(kinds.map((kind, i) => ({ kind: kind, cap: (caps.length === 1 ? caps[0] : caps[i]) || null })));
  }

  function listen() {
    document.getElementById("fleet").closest("details").addEventListener("toggle", draw);
    document.getElementById("fleet-alike").addEventListener("click", function () { take(null); ex.touched(); });
  }

  ex.fleet = { write, follow, take, read, listen, all: () => each };
})();
