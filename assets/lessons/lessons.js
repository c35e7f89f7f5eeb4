/* Lessons: a strip of steps. A step puts its settings into the controls and lights those that matter; what the reader
   had before comes back when they leave. The server has the words and judges the answers. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const STORAGE_KEY = "explorer-before-lesson"; /* what the reader had, while this tab lives */
  const GIB = 1024 ** 3;

  /* What is lit, by the names that a lesson uses: the control with its label, or a part of the page. */
  const control = (id) => [
    ".rail .set > #" + id, ".rail .set > :not(.set, details):has(#" + id + ")", ".rail details > .spread:has(#" + id + ")",
    ".rail .set > .label:has(+ #" + id + ")", ".rail .set > .label:has(+ [data-term] #" + id + ")",
  ];
  const SPOTS = {
    model: control("model"),
    throughput: [".kpi:nth-child(1)"], time: [".kpi:nth-child(2)"], bubble: [".kpi:nth-child(3)"],
    peak_memory: [".kpi:nth-child(4)"], bound: [".kpi:nth-child(5)"],
    graph: [".graph-card"], schedule: [".gantt-card"], memory_curves: [".tabs-card"], why: ["#why"], help: ["#help"], run: [".tabs-card"],
  };

  let shown = null; /* {lesson, step} that is on */
  let current = null; /* the message that opened it */
  let before = null;
  let sheet = null;

  const linked = () => {
    const given = new URLSearchParams(location.search);
    return given.get("lesson") ? { lesson: given.get("lesson"), step: +given.get("step") || 1 } : null;
  };

  /* The address of a question names the step that it belongs to. */
  function address(query) {
    const link = new URLSearchParams(query);
    if (!shown && !link.has("lesson")) return query;
    for (const key of ["lesson", "step"]) {
      if (shown && shown[key]) link.set(key, shown[key]);
      else link.delete(key);
    }
    return "?" + link;
  }

  function look(query) {
    const given = new URLSearchParams(query);
    return {
      graph: given.get("graph") || "operators", rows: given.get("rows") || "auto", link_rows: given.get("link_rows") || "auto",
      path: given.get("path") === "true", pair: given.get("pair") || "none",
    };
  }

  function remember() {
    if (shown || before) return;
    before = { now: ex.snapshot(), look: look(location.search), query: location.search };
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(before));
  }

  function send(at, retain) {
    ex.send({ type: "lesson", lesson: at.lesson, step: at.step, same_controls: retain === true });
  }

  function open(lesson, step) {
    remember();
    send({ lesson: lesson, step: step });
  }

  /* A connection, the first or another one: the server has to know which step is on. */
  function opened() {
    if (shown) { send(shown, true); return; }
    const at = linked();
    if (!at) { sessionStorage.removeItem(STORAGE_KEY); return; }
    before = JSON.parse(sessionStorage.getItem(STORAGE_KEY) || "null");
    send(at);
  }

  /* The whole state of the controls that a question means. */
  function controls(of) {
    const own = ex.ownMemory[of.device_kind];
    const top = Math.log2(own / GIB);
    const cap = of.memory && of.memory < own ? { position: Math.log2(of.memory / GIB), bytes: of.memory } : null;
    const pinned = new URLSearchParams();
    for (const key of ["pins", "together"]) if (of[key]) pinned.set(key, of[key]);
    return {
      top: top, cap: cap, files: {}, fleet: null, pins: ex.pins.read(pinned),
      controls: {
        ...Object.fromEntries(ex.settings.map((one) => [one.id, ex.shown(one, of[one.name])])),
        model: of.model, devices: of.devices, memory: cap ? cap.position : top, kind: of.device_kind, "kind-two": "none", "kind-two-count": "",
      },
    };
  }

  function put(of) {
    const wanted = controls(of);
    const micro = wanted.controls["micro-batches"];
    const choices = [...document.querySelectorAll("#micro-batches input")].map((each) => each.value);
    if (!choices.includes(micro)) window.dash_clientside.set_props("micro-batches", { data: [...choices, micro] });
    if (wanted.controls.memory < 0) window.dash_clientside.set_props("memory", { min: Math.floor(wanted.controls.memory) });
    ex.looks.put({ ...of.look, pair: "none" });
    ex.steps.restore(wanted);
  }

  /* Rules in a sheet of their own: elements come and go with every plan. */
  function light(names) {
    if (!sheet) {
      sheet = new CSSStyleSheet();
      document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    }
    const lit = names.flatMap((name) => SPOTS[name] || []).map((spot) => "body.in-lesson " + spot);
    const within = (rest) => lit.map((spot) => spot + rest).join(", ");
    sheet.replaceSync(
      lit.length
        ? within("") + " { filter: none; --lit: 1; }" + within(":not(.card, .label, .hint)") + " { box-shadow: 0 0 0 2px var(--accent-soft), 0 0 0 3.5px var(--accent); border-radius: 3px; }" + within(".label") + " { color: var(--accent); font-weight: 600; }" +
            within(".kpi") + ", " + within(".card") + " { box-shadow: none; border-color: var(--accent); outline: 1.5px solid var(--accent); border-radius: 8px; }"
        : ""
    );
    for (const details of document.querySelectorAll(".rail details")) {
      if (names.some((name) => (SPOTS[name] || []).some((spot) => details.querySelector(spot)))) details.open = true;
    }
    if (names.includes("memory_curves")) window.dash_clientside.set_props("tabs", { value: "memory" });
    const first = names.map((name) => (SPOTS[name] || []).map((spot) => document.querySelector(".rail-scroll " + spot)).find(Boolean)).find(Boolean);
    if (first) requestAnimationFrame(() => first.scrollIntoView({ block: "center" }));
  }

  /* A control that a question names: in sight, and reached by keyboard. */
  function reveal(name) {
    const place = (SPOTS[name] || []).map((spot) => document.querySelector(spot)).find(Boolean);
    if (!place) return;
    place.scrollIntoView({ block: "center" });
    const way = place.matches("select, input, button") ? place : place.querySelector('[role=slider], input:checked, select, input, button');
    if (way) way.focus({ preventScroll: true });
  }

  function draw(message) {
    const first = !document.body.classList.contains("in-lesson");
    current = message;
    shown = { lesson: message.lesson, step: message.step };
    document.body.classList.add("in-lesson");
    document.body.dataset.moves = (message.move || []).join(" ");
    light(message.light || []);
    if (message.lesson && !message.same_controls) put(message.controls);
    if (message.same_controls) ex.steps.replace(location.search);
    if (first) requestAnimationFrame(() => document.getElementById("lesson-title").focus({ preventScroll: true }));
  }

  /* back: whether what the reader had comes back with it; Back of the browser brings its own. */
  function leave(back) {
    if (!shown) return;
    const had = before;
    shown = current = before = null;
    sessionStorage.removeItem(STORAGE_KEY);
    document.body.classList.remove("in-lesson");
    light([]);
    ex.send({ type: "leave-lesson" });
    if (!back) return;
    if (had && had.now) {
      ex.looks.put(had.look);
      ex.steps.restore(had.now);
    } else ex.steps.replace(location.search);
    document.querySelector("#lessons-menu > summary").focus();
  }

  function go(place) {
    if (place) open(place[0], place[1]);
    else leave(true);
  }

  /* Undo and redo go through the steps of a lesson as through anything else. */
  function follow() {
    const at = linked();
    if (!at) leave(false);
    else if (!shown || shown.lesson !== at.lesson || shown.step !== at.step) send(at, true);
  }

  function listen() {
    for (const one of ex.settings) SPOTS[one.name] = control(one.id);
    SPOTS.planner.push("#guarantee");
    const menu = document.getElementById("lessons-menu");
    const shut = (event) => { if (menu && menu.open && !menu.contains(event.target)) menu.open = false; };
    document.addEventListener("click", function (event) {
      shut(event);
      const spot = event.target.closest && event.target.closest("[data-spot]");
      if (spot) reveal(spot.dataset.spot);
      const way = event.target.closest && event.target.closest("[data-lesson]");
      if (!way) return;
      if (menu) menu.open = false;
      open(way.dataset.lesson, +way.dataset.step);
    });
    if (menu) {
      menu.addEventListener("keydown", function (event) {
        const items = [...menu.querySelectorAll("button")];
        const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (event.key === "Escape") { menu.open = false; menu.querySelector("summary").focus(); }
        else if (by && menu.open) items[(items.indexOf(document.activeElement) + by + items.length + (by < 0 && !menu.contains(document.activeElement) ? 1 : 0)) % items.length].focus();
        else return;
        event.preventDefault();
        event.stopPropagation();
      });
    }
    const onClick = (id, act) => document.getElementById(id).addEventListener("click", act);
    onClick("lesson-back", () => current && current.back && go(current.back));
    onClick("lesson-next", () => current && go(current.next));
    onClick("lesson-again", () => shown && shown.lesson && send(shown));
    onClick("lesson-leave", () => leave(true));
    window.addEventListener("popstate", follow);
  }

  ex.lessons = { SPOTS, address, opened, draw, listen };
})();
