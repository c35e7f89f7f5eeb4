/* The controls become one session; a changed session becomes one question to the server. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const GIB = 1024 ** 3;
  const HERE = ["cap", "set", "to-setting", "show-kept"]; /* what buttons do of which the server does not hear */
  const HOLD_MS = 400; /* while a solve runs, a newer question waits this long before it replaces it */
  let session = null;
  let solved = null;
  let sent = null; /* the session sent to the server last */
  let live = true;
  let timer = null;
  let inFlight = 0;
  let changedAt = 0;
  let changedBy = 0; /* the gesture of the last change */
  let requestedBy = 0;
  let restored = false;
  let settling = true;
  let query = location.search;
  let awaited = null; /* turn of the question asked last, once the server has sent it */
  let drawn = null; /* the question that the plan on the page answers */

  /* How each setting's control is found and read, as it is declared: by the setting's name in a link. */
  function declare(settings) {
    ex.settings = settings.map(([name, id, shape, unit, place, begins]) => ({
      name: name, id: id, shape: shape, unit: unit, place: place, begins: begins, prop: shape === "switch" ? "checked" : "value",
    }));
  }

  /* What a question says of a setting whose control has a value, and the other way round. */
  function written(one, value) {
    if (one.shape === "switch") return value === true;
    if (one.shape === "number") return number(value) === null ? null : value * one.unit;
    if (value === "true" || value === "false") return value === "true";
    return value === "auto" ? null : /^\d+$/.test(value) ? +value : value;
  }

  ex.shown = function (one, value) {
    if (value === undefined || value === null) return one.begins;
    if (one.shape === "switch") return value === true || value === "true";
    return one.shape === "number" ? +value / one.unit : String(value);
  };

  /* Sets the controls of what `wanted` names, but for those that are made of several. */
  function putSettings(wanted) {
    for (const one of ex.settings) {
      if (one.shape === "own" || wanted[one.name] === undefined || wanted[one.name] === null) continue;
      const value = ex.shown(one, wanted[one.name]);
      if (one.shape === "number" && !isFinite(value)) continue;
      window.dash_clientside.set_props(one.id, { [one.prop]: value });
      if (one.place === "rare") document.querySelector("details.more.rare").open = true;
    }
  }

  let usual = "iteration"; /* the objective of the model, if none is chosen */

  /* The model says what it is usually planned for. */
  ex.model = function (message) {
    usual = message.objective;
    onePass(session ? session.objective : "auto");
    stated = message.memory_bytes;
    range();
  };

  /* Bytes of a device where no cap is set: of the cluster that was chosen, of the file's own, else of its kind. A file
     without caps has 0. */
  let stated = null;

  function ownBytes(kind) {
    const given = files.cluster ? ex.files.memory(files.cluster) : stated;
    return given === 0 ? Infinity : given || ex.ownMemory[kind] || 16 * GIB;
  }

  const topOf = (kind) => Math.log2((ownBytes(kind) < Infinity ? ownBytes(kind) : ex.ownMemory[kind]) / GIB);

  /* The slider of the cap goes up to what devices have, and a cap that was all of it stays all of it. */
  function range() {
    if (!values) return;
    const { kind, memory } = values.controls;
    const top = topOf(kind);
    if (top !== values.top) window.dash_clientside.set_props("memory", { max: top, value: memory >= values.top - 0.031 ? top : Math.min(memory, top) });
    else if (memory >= top - 0.031) window.dash_clientside.set_props("memory-field", { value: (shownCap = shownBytes(ownBytes(kind))) });
  }

  /* Without micro-batches the controls of pipelines mean nothing. */
  function onePass(objective) {
    const onePassOnly = (objective && objective !== "auto" ? objective : usual) === "makespan";
    document.body.classList.toggle("one-pass", onePassOnly);
    return onePassOnly;
  }

  /* fp32 masters are kept of 16-bit weights: who chooses one of the two gets the other. What is no demo says itself in
     which numbers it is. */
  function keepTogether(next, demo) {
    const put = (changed) => { putSettings(changed); Object.assign(next, changed); };
    if (!demo && session && session.model !== next.model) {
      if (next.dtype) { put({ dtype: "auto" }); next.dtype = null; }
      if (next.precision !== "pure") put({ precision: "pure" });
    }
    if (!demo || next.precision === "pure" || ["bf16", "fp16"].includes(next.dtype)) return;
    if (session && session.precision !== next.precision) put({ dtype: "bf16" });
    else put({ precision: "pure" });
  }

  const nothing = () => window.dash_clientside.no_update;
  const number = (value) => (typeof value === "number" && isFinite(value) ? value : null);

  /* Slider positions are log2(GiB); the bytes are rounded to two digits so that they read well. */
  function bytesOf(position, top) {
    if (position >= top - 0.031) return null;
    const unit = position < 0 ? GIB / 1024 : GIB;
    const value = (2 ** position * GIB) / unit;
    const step = value >= 100 ? 10 : value >= 10 ? 1 : 0.1;
    return Math.round(Math.round(value / step) * step * unit);
  }

  function shownBytes(bytes) {
    if (bytes === Infinity) return "no cap";
    const unit = bytes >= GIB ? GIB : GIB / 1024;
    return +(bytes / unit).toPrecision(3) + (unit === GIB ? " GiB" : " MiB");
  }

  const UNITS = { B: 1, K: 1024, M: 1024 ** 2, G: GIB, T: GIB * 1024, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KIB: 1024, MIB: 1024 ** 2, GIB: GIB, TIB: GIB * 1024 };

  /* "16 GiB", "80 GB", "512m", "16" (GiB) -> bytes; null if it is no size. */
  function parsedBytes(text) {
    const size = /^\s*(\d{1,9}(?:\.\d{1,6})?)\s*([a-zA-Z]{0,3})\s*$/.exec(text);
    const unit = size && (size[2] ? UNITS[size[2].toUpperCase()] : GIB);
    return unit && size[1] * unit >= 2 ** 20 && size[1] * unit <= 2 ** 50 ? size[1] * unit : null;
  }

  ex.sizes = { parsed: parsedBytes, shown: shownBytes, own: ownBytes };

  /* The value of the slider's thumb for screen readers: a size, not the logarithm that it stands at. */
  let thumbText = "";

  function nameThumb(shown) {
    if (shown) thumbText = shown;
    const thumb = document.querySelector("#memory [role=slider]");
    if (thumb && thumb.getAttribute("aria-valuetext") !== thumbText) thumb.setAttribute("aria-valuetext", thumbText);
  }

  /* A question as text, however it is drawn. */
  const question = (session) => JSON.stringify({ ...session, theme: "" });

  /* The picture is of another question than the controls ask: it is dimmed until there is a plan of this one. */
  function markStale() {
    const stale = drawn !== null && session !== null && question(session) !== drawn;
    document.body.classList.toggle("stale", stale);
    document.getElementById("centre").setAttribute("aria-busy", String(stale && (inFlight > 0 || timer !== null)));
  }

  /* A plan was drawn: is it one of the question asked last? */
  ex.pictured = function (message) {
    const answers = message.reason === "incumbent" || message.reason === "final";
    if (!answers || awaited === null || message.turn < awaited || solved === null) return;
    drawn = question(JSON.parse(solved));
    markStale();
  };

  /* The place for the graph, in pixels. */
  function canvas() {
    const box = document.querySelector(".graph-card .canvas");
    const size = box ? [box.clientWidth, box.clientHeight] : null;
    ex.split.sentCanvas(size);
    return size;
  }

  function submit(fresh) {
    if (!session || !ex.isOpen()) return;
    ex.askedAt = changedAt || performance.now();
    changedAt = 0;
    requestedBy = changedBy;
    solved = sent = JSON.stringify(session);
    inFlight = performance.now();
    awaited = null;
    markStale();
    ex.setProps({ banner: { children: [], hidden: true } }); /* it was about the question before */
    ex.status("waiting", "waiting", "");
    ex.send({ type: "solve", session: session, canvas: canvas(), fresh: fresh === true });
  }

  function changed() {
    changedAt = changedAt || performance.now();
    changedBy = ex.steps.current();
    if (settling) { /* a link sets many controls: ask once, when they have come to rest */
      clearTimeout(timer);
      timer = setTimeout(function () { timer = null; settling = false; submit(); }, 150);
      return;
    }
    if (timer) return;
    const wait = inFlight ? Math.max(10, HOLD_MS - (performance.now() - inFlight)) : 10;
    timer = setTimeout(function () { timer = null; if (JSON.stringify(session) !== solved) submit(); else changedAt = 0; }, wait);
  }

  /* All that the controls say, to be said again. */
  let values = null;
  let shownCap = ""; /* what the controls say in the field of the cap; it comes back as if it had been typed */
  let alike = {}; /* kind and cap of the controls for all devices */
  ex.snapshot = () => values && { ...values, files: { ...files }, pins: ex.pins.all(), fleet: ex.fleet.all(), cap: ex.exactCap || null };
  ex.askOnce = function () { settling = true; changed(); };
  ex.restoreFiles = function (was, pins, fleet) {
    Object.assign(files, { profile: null, times_file: null, cluster: null }, was);
    ex.files.chips(files, called);
    ex.pins.take(pins);
    ex.fleet.take(fleet);
    if (session) session = { ...session, ...files, ...ex.pins.write(), ...ex.fleet.write() };
  };
  ex.busy = () => timer !== null || inFlight > 0;

  ex.settled = function (message) {
    if (message.query !== undefined) {
      query = "?" + message.query;
      if (message.asked) ex.steps.settle(query, ex.snapshot(), requestedBy);
      else setTimeout(() => ex.steps.settle(query, ex.snapshot(), ex.steps.current()), 120); /* the controls follow */
    }
    if (message.asked) awaited = message.turn;
    if (ex.BUSY.includes(message.state)) return;
    inFlight = 0;
    markStale();
    if (timer) { clearTimeout(timer); timer = null; changed(); }
  };

  /* Files that take the place of settings, by the names that the server gave them; and what they are called. */
  let files = { profile: null, times_file: null, cluster: null };
  const called = {};

  ex.putFiles = function (changed_files, names) {
    Object.assign(files, changed_files);
    Object.assign(called, names);
    ex.files.chips(files, called);
    if (session) session = { ...session, ...files };
    range();
    ex.touched();
  };

  /* What would have been set by hand: controls by the names that a link gives them. */
  ex.go = function (wanted) {
    if ("devices" in wanted) ex.setDevices(wanted.devices);
    putSettings(wanted);
    if ("memory" in wanted) ex.setCap(wanted.memory);
  };

  ex.putPins = function (next) {
    ex.pins.take(next);
    ex.touched();
  };

  /* Something changed that no control of Dash's says. */
  ex.touched = function () {
    if (!session) return;
    session = { ...session, ...alike, ...ex.pins.write(), ...ex.fleet.write() };
    if (live) changed();
    markStale();
  };

  /* A file is a model to choose from now on. */
  ex.addModel = function (file, name) {
    const shown = name === "auto" ? "auto (file)" : name;
    ex.modelData = [...ex.modelData.filter((each) => each.value !== file), { value: file, label: shown }];
    window.dash_clientside.set_props("model", { data: ex.modelData, value: file });
  };

  /* For a moment, what changes in the controls follows the picture, and asks nothing. */
  let quiet = 0;
  ex.quietly = function () { quiet = performance.now() + 600; };
  ex.loudly = function () { quiet = 0; };

  ex.adopt = function (message) {
    const controls = { ...message.controls };
    ex.go(controls);
    if ("memory" in controls) controls.memory = ex.exactCap.bytes < ownBytes(values.controls.kind) ? ex.exactCap.bytes : null; /* as the slider says it */
    if ("bandwidth" in controls) controls.bandwidth = (controls.bandwidth / 1e9) * 1e9;
    const before = JSON.parse(sent);
    for (const key of Object.keys(controls)) if (key in before) before[key] = controls[key] === "auto" ? null : controls[key]; /* of one pass, fewer are asked */
    solved = sent = JSON.stringify(before);
    awaited = message.turn;
  };

  ex.opened = function () {
    solved = null;
    ex.looks.send();
    if (session) changed();
    ex.tellOpen();
    ex.lessons.opened();
  };

  /* A link's query string is put into the controls, which then ask as if a person had set them. */
  function restore(catalogue, model, devices) {
    const given = new URLSearchParams(location.search);
    divided(given);
    const put = (id, value) => window.dash_clientside.set_props(id, { value: value });
    if (given.get("lesson")) return false; /* its step says what is set */
    if (![...given.keys()].some((key) => key !== "theme" && key !== "v" && !ex.looks.KEYS.includes(key))) return false;
    /* Only a page without a question begins with fewer micro-batches, in 16 bits, on links of the kind. */
    putSettings(Object.fromEntries(Object.entries(catalogue.begun).filter(([name]) => !given.get(name))));
    older(given, catalogue.first, model, devices);
    let kind = given.get("device_kind");
    let tableKinds = ""; /* kinds that only a table can say */
    if (kind && !catalogue.kinds[kind]) {
      const mixed = parted(kind).length > 2 || (given.get("memory") || "").includes(",");
      if (mixed && parted(kind).every((part) => part && catalogue.kinds[part[2]])) tableKinds = kind;
      kind = mix(kind, put, tableKinds !== "");
    }
    let top = null;
    if (kind && catalogue.kinds[kind]) { top = Math.log2(catalogue.kinds[kind] / GIB); }
    if (top !== null) {
      window.dash_clientside.set_props("memory", { max: top, value: top });
      put("kind", kind);
    }
    if (given.get("model")) put("model", given.get("model"));
    putSettings(Object.fromEntries([...given].filter(([, value]) => value !== "")));
    if (+given.get("devices") > 0) ex.setDevices(+given.get("devices"));
    for (const key of Object.keys(files)) if (given.get(key)) files[key] = given.get(key);
    ex.pins.take(ex.pins.read(given));
    if (files.profile || files.times_file || files.cluster) setTimeout(() => ex.files.chips(files, called), 0);
    const caps = given.get("memory");
    if (caps && isFinite(+caps)) ex.setCap(+caps);
    if ((caps && !isFinite(+caps)) || tableKinds) {
      const count = +given.get("devices") || (tableKinds ? counted(tableKinds) : devices);
      ex.fleet.read(each(tableKinds || given.get("device_kind") || document.querySelector("#kind").value, count), caps || "0");
    }
    return true;
  }

  /* How tensors are divided may stand in the model's name, too: "gpt,tensor-parallel=auto". */
  function divided(given) {
    const model = given.get("model") || "";
    if (given.get("tensor_parallel") === "auto") given.set("tensor_parallel", "search");
    const whole = model.replace(/,(tensor|sequence)-parallel=([a-z0-9]+)/g, function (_, which, value) {
      given.set(which + "_parallel", value === "auto" ? "search" : value);
      return "";
    });
    if (model) given.set("model", whole);
  }

  /* A link of the first version leaves out a mini-batch of so many samples a device; before the third, 1F1B left planners
     free to run ahead (`parse_query`). */
  function older(given, first, model, devices) {
    for (const [name, was, now] of +given.get("v") >= 3 ? [] : first.meant) if (given.get(name) === was) given.set(name, now);
    if (given.get("v") || +given.get("mini_batch") > 0 || !first.models.includes(given.get("model") || model)) return;
    const kinds = given.get("device_kind") || "";
    const count = +given.get("devices") || (/,|^\d+x/.test(kinds) ? counted(kinds) : devices);
    given.set("mini_batch", first.samples * count);
  }

  const parted = (text) => text.split(",").map((part) => /^(?:(\d+)x)?(.+)$/.exec(part));
  const count = (part) => +(part[1] || 1);
  const counted = (text) => parted(text).reduce((sum, part) => sum + count(part), 0);

  /* The kind of each of so many devices. */
  const each = (text, devices) => (/,|^\d+x/.test(text) ? parted(text).flatMap((part) => Array(count(part)).fill(part[2])) : Array(devices).fill(text));

  /* "2xA,2xB": two kinds have controls of their own; more have the table of each GPU. */
  function mix(text, put, inTable) {
    const parts = parted(text);
    ex.setDevices(counted(text));
    if (inTable || parts.length > 2) return parts[0][2];
    document.querySelector("details.more.rare").open = parts.length === 2;
    if (parts.length === 2) { put("kind-two", parts[1][2]); put("kind-two-count", count(parts[1])); }
    return parts[0][2];
  }

  /* What a link's query and the page's agree on, without asking anybody. */
  ex.putQuery = function (text) {
    query = "?" + text;
    ex.steps.replace(query);
  };

  /* The slider goes up to 16, or to as many as are set. */
  ex.setDevices = (count) => window.dash_clientside.set_props("devices", { value: count, max: Math.max(16, count) });

  ex.setCap = function (exact) {
    const bytes = Math.ceil(exact / 2 ** 20) * 2 ** 20;
    const position = Math.log2(bytes / GIB);
    const props = { value: position };
    if (position < 0) props.min = Math.floor(position);
    window.dash_clientside.set_props("memory", props);
    ex.exactCap = { position: position, bytes: bytes };
  };

  /* While nobody has chosen a theme, that of the system counts, also when it changes. */
  const chosenTheme = () => new URLSearchParams(location.search).get("theme") || localStorage.getItem("explorer-theme");
  let following = false;

  function followSystem() {
    if (following) return;
    following = true;
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function (event) {
      if (localStorage.getItem("explorer-theme")) return;
      window.dash_clientside.set_props("chosen-theme", { data: useTheme(event.matches ? "dark" : "light") });
    });
  }

  /* From now on the page has this theme: link, session and server are updated. */
  function useTheme(next) {
    document.documentElement.dataset.theme = next;
    if (session) session.theme = next;
    if (location.search) {
      const link = new URLSearchParams(location.search);
      if (next === "dark") link.set("theme", "dark"); else link.delete("theme");
      ex.steps.replace("?" + link);
    }
    solved = session && solved ? JSON.stringify({ ...JSON.parse(solved), theme: next }) : solved;
    if (sent) sent = JSON.stringify({ ...JSON.parse(sent), theme: next });
    ex.send({ type: "theme", theme: next });
    return next;
  }

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.explorer = {
    controls: function () {
      const { inputs, states } = window.dash_clientside.callback_context;
      const catalogue = states["catalogue.data"];
      const top = states["memory.max"];
      const value = (id) => inputs[id + ".value"];
      const [model, devices, memory, kind, kindTwo, ofTwo] = ["model", "devices", "memory", "kind", "kind-two", "kind-two-count"].map(value);
      if (!ex.settings) declare(catalogue.settings);
      ex.modelData = ex.modelData || catalogue.models;
      ex.kinds = Object.keys(catalogue.kinds);
      ex.ownMemory = catalogue.kinds;
      ex.guide.fill(catalogue.guide);
      if (!restored) {
        restored = true;
        ex.plain.install();
        if (restore(catalogue, model, devices)) {
          setTimeout(ex.start, 0);
          return [nothing(), nothing(), nothing(), nothing()];
        }
        setTimeout(ex.start, 0);
      }
      live = inputs["solve-on-change.checked"];
      if (session && session.model !== model && !ex.stepping()) ex.pins.take(ex.pins.NOTHING); /* they name nothing of another model */
      const own = ownBytes(kind);
      let cap = bytesOf(memory, Math.min(top, Math.log2(own / GIB)));
      if (ex.exactCap && Math.abs(ex.exactCap.position - memory) < 1e-6) cap = ex.exactCap.bytes;
      if (cap !== null && cap >= own) cap = null;
      const meaningless = onePass(value("objective")) ? "pipelines" : "one-pass";
      let kinds = kind;
      if (kindTwo !== "none" && devices > 1 && !kind.includes(",")) {
        const second = Math.min(devices - 1, number(ofTwo) || Math.floor(devices / 2));
        kinds = devices - second + "x" + kind + "," + second + "x" + kindTwo;
      }
      alike = { device_kind: kinds, memory: cap };
      ex.fleet.follow(devices, each(kinds, devices), Array(devices).fill(cap));
      const next = { model: model };
      for (const one of ex.settings) {
        if (one.shape !== "own" && one.place !== meaningless) next[one.name] = written(one, inputs[one.id + "." + one.prop]);
      }
      if (next.max_replicas === 1) next.zero = 0; /* nobody to share with */
      document.body.classList.toggle("of-inference", next.training === false);
      document.body.classList.toggle("divided", next.tensor_parallel !== 1);
      keepTogether(next, catalogue.demos.includes(model));
      Object.assign(next, { devices: devices, ...alike, ...ex.fleet.write(), ...files, ...ex.pins.write(), theme: document.documentElement.dataset.theme || "light" });
      values = { top: top, controls: { model: model, "kind-two": kindTwo, "kind-two-count": ofTwo } };
      for (const one of ex.settings) values.controls[one.id] = inputs[one.id + "." + one.prop];
      const text = JSON.stringify(next);
      if (performance.now() < quiet) {
        clearTimeout(timer);
        timer = null;
        session = next;
        solved = sent = text;
        drawn = question(next);
      }
      const fresh = text !== JSON.stringify(session);
      session = next;
      if (fresh && live) changed();
      markStale();
      const [guarantee, source] = catalogue.planners[value("planner")] || ["", ""];
      const promise = {
        namespace: "dash_html_components", type: "Span",
        props: { className: "tag", children: guarantee },
      };
      const words = source ? [promise, " " + source] : [promise];
      const shown = shownBytes(cap === null ? own : cap);
      shownCap = shown;
      nameThumb(shown);
      return [next, String(devices), shown, guarantee ? words : []];
    },

    /* A size typed into the field moves the slider; what is no size is said there. */
    memoryField: function (text) {
      const bytes = parsedBytes(text || "");
      if (text === shownCap) return "";
      if (bytes === null) return text ? "a size: 16 GiB" : "";
      ex.setCap(values ? Math.min(bytes, ownBytes(values.controls.kind)) : bytes);
      return "";
    },

    kind: function (kind, value, top) {
      const own = topOf(kind);
      return [own, value >= top - 0.031 ? own : Math.min(value, own)];
    },

    solve: function () { submit(true); return nothing(); },
    cancel: function () { ex.send({ type: "cancel" }); return nothing(); },

    compare: function (clicks, every) {
      if (session && ex.isOpen()) {
        sent = JSON.stringify(session);
        ex.send({ type: "compare", session: session, every: every === true, canvas: canvas() });
      }
      return nothing();
    },
    stopComparing: function () { ex.send({ type: "stop-comparing" }); return nothing(); },

    theme: function (clicks, scheme) {
      followSystem();
      if (clicks) {
        const next = scheme === "dark" ? "light" : "dark";
        localStorage.setItem("explorer-theme", next);
        return useTheme(next);
      }
      const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
      const next = chosenTheme() || (dark ? "dark" : "light");
      document.documentElement.dataset.theme = next;
      if (session) session.theme = next;
      solved = session && solved ? JSON.stringify({ ...JSON.parse(solved), theme: next }) : solved;
      ex.send({ type: "theme", theme: next });
      return next;
    },

    share: function () {
      ex.send({ type: "share" });
      return nothing();
    },

    tab: function () { ex.tellOpen(); return nothing(); },

    openRun: function () { ex.runs.arrive(); return "run"; },
    run: function (clicks, target, steps, verify) {
      ex.send({ type: "run", target: target, steps: number(steps), verify: verify === true });
      return nothing();
    },
    cancelRun: function () { ex.send({ type: "cancel-run" }); return nothing(); },
    runTarget: function (target) { ex.send({ type: "run-target", element: target }); return nothing(); },
  };

  /* Brings a control into sight, and the focus to it. */
  function toSetting(id) {
    const control = document.getElementById(id);
    if (!control) return;
    for (let around = control.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
    control.scrollIntoView({ block: "center" });
    const part = control.matches("select, input, button") ? control : control.querySelector("select, input, button, [tabindex]");
    if (part) part.focus();
  }

  /* Tables are sent only while they are open. */
  ex.tellOpen = function () {
    const shown = [];
    for (const twin of document.querySelectorAll("details.twin[open] .table-wrap")) shown.push(twin.id);
    setTimeout(function () {
      const tab = document.querySelector('[role="tab"][aria-selected="true"]');
      const name = tab ? tab.textContent.toLowerCase() : "";
      if (["devices", "compare", "run", "review", "sweep", "scenarios"].includes(name)) shown.push(name);
      if (name === "search") shown.push("log");
      document.body.dataset.tab = name;
      ex.send({ type: "open", shown: shown });
    }, 0);
  };

  ex.start = function () {
    document.addEventListener("toggle", function (event) {
      if (event.target.classList && event.target.classList.contains("twin")) ex.tellOpen();
    }, true);
    document.addEventListener("click", function (event) {
      const named = event.target.closest && event.target.closest("[data-reveal]");
      if (named) ex.gantt.reveal(+named.dataset.reveal, +named.dataset.from, +named.dataset.to);
      const button = event.target.closest && event.target.closest("[data-act]");
      if (!button) return;
      const argument = button.dataset.arg;
      if (button.dataset.act === "cap") ex.setCap(+argument);
      if (button.dataset.act === "to-setting") toSetting(argument);
      if (button.dataset.act === "set") ex.go({ [argument.split("=")[0]]: argument.split("=")[1] });
      if (!HERE.includes(button.dataset.act)) ex.send({ type: button.dataset.act, element: argument });
    });
    const onClick = (id, act) => document.getElementById(id).addEventListener("click", act);
    onClick("shallower", () => ex.send({ type: "depth", step: -1 }));
    onClick("deeper", () => ex.send({ type: "depth", step: 1 }));
    onClick("graph-fit", () => ex.graph.fit());
    onClick("gantt-fit", () => ex.gantt.fit());
    const rail = document.querySelector(".rail-scroll"); /* the thumb is made again whenever the slider's range changes */
    new MutationObserver(() => nameThumb("")).observe(rail, { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-valuenow"] });
    nameThumb("");
    ex.chooser.listen();
    ex.files.listen();
    ex.take.listen();
    ex.steps.listen();
    ex.scenarios.listen();
    ex.lessons.listen();
    ex.sweep.listen();
    ex.pins.listen();
    ex.fleet.listen();
    ex.guide.listen();
    ex.find.listen();
    ex.split.listen();
    ex.looks.listen();
    ex.stages.listen();
    ex.graph.listen();
    ex.gantt.listen();
    ex.clock.listen();
    ex.search.listen();
    ex.runs.listen();
    ex.connect();
  };
})();
