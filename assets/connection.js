/* The websocket to the server: connect, send, dispatch, reconnect. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  let socket = null;
  let waiting = [];
  let delay = 300;
  let announced = "";
  let held = null;
  let newest = null;
  let selected = false; /* somebody selected something: what is known of it shall be in sight */
  const INCUMBENT_HOLD_MS = 80;
  ex.BUSY = ["waiting", "loading", "solving"];

  ex.setProps = function (props) {
    const back = "comparison" in props ? focusedRow() : null;
    for (const id of Object.keys(props)) window.dash_clientside.set_props(id, props[id]);
    if ("inspector" in props && selected) {
      selected = false;
      requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById("inspector").scrollIntoView({ block: "nearest" })));
    }
    if (back !== null) requestAnimationFrame(function () { requestAnimationFrame(function () { focusRow(back, 20); }); });
  };

  /* New rows are new elements: who was on one by keyboard stays on it, wherever it moved. */
  function focusedRow() {
    const row = document.activeElement && document.activeElement.closest("#comparison [data-arg]");
    return row ? row.dataset.arg : null;
  }

  function focusRow(place, tries) {
    if (document.activeElement !== document.body) return;
    const button = document.querySelector('#comparison [data-arg="' + place + '"] .row-link');
    if (button) button.focus({ preventScroll: true });
    else if (tries) setTimeout(function () { focusRow(place, tries - 1); }, 20);
  }

  /* While a search goes on its time is counted here: between two plans the server has nothing to say. */
  let begun = null;
  let words = "";
  const TICK_MS = 100;
  const clock = (ms) => (ms < 99950 ? (ms / 1000).toFixed(1) : Math.round(ms / 1000)) + " s";

  function tick() {
    const box = document.getElementById("status");
    if (!box || begun === null) return;
    const now = performance.now() - begun;
    box.querySelector(".more").textContent = clock(now) + (words && words !== "…" ? " · " + words : "");
    if (box.dataset.state === "loading") veil(box.querySelector(".what").textContent + " · " + clock(now));
    ex.search.tick(now / 1000);
  }
  setInterval(tick, TICK_MS);

  /* Over the views while there is nothing to show yet. */
  function veil(words) {
    for (const place of document.querySelectorAll(".veil")) place.textContent = words;
  }

  ex.status = function (state, what, more, elapsed) {
    const box = document.getElementById("status");
    if (!box) return;
    if (!ex.BUSY.includes(state) && state !== "lost") stood = [state, what, more];
    begun = elapsed === undefined ? null : performance.now() - elapsed * 1000;
    words = more;
    box.dataset.state = document.body.dataset.state = state;
    box.querySelector(".what").textContent = what;
    box.querySelector(".more").textContent = more;
    box.title = more;
    tick();
    const announcer = document.getElementById("announcer");
    if (announced !== state + what) {
      announced = state + what;
      announcer.textContent = state + ": " + what + " " + more;
    }
    const busy = ex.BUSY.includes(state);
    window.dash_clientside.set_props("cancel", { disabled: !busy });
    veil(state === "loading" ? what : "");
    ex.clock.able();
  };

  /* What the page stood at before something that came to nothing. */
  let stood = null;
  ex.back = function () { if (stood) ex.status(...stood); };

  ex.send = function (message) {
    if (message.type === "select") selected = message.kind !== "none";
    if (ex.isOpen()) socket.send(JSON.stringify(message));
    else waiting = waiting.filter((m) => m.type !== message.type).concat(message);
  };

  ex.isOpen = () => socket !== null && socket.readyState === WebSocket.OPEN;

  ex.connect = function () {
    const scheme = location.protocol === "https:" ? "wss://" : "ws://";
    let opened = false;
    socket = new WebSocket(scheme + location.host + "/live");
    socket.onopen = function () {
      opened = true;
      delay = 300;
      ex.opened();
      const late = waiting;
      waiting = [];
      late.forEach(ex.send);
    };
    socket.onmessage = function (event) {
      const received = performance.now();
      const message = JSON.parse(event.data);
      const handler = ex.on[message.type];
      if (handler) handler(message, received);
      if (message.props && message.type !== "plan") ex.setProps(message.props);
    };
    socket.onclose = function (event) {
      if (opened || document.body.dataset.state !== "lost") ex.status("lost", "connection lost", event.reason || "trying again");
      if (!opened) askWhy();
      setTimeout(ex.connect, delay);
      delay = Math.min(delay * 1.7, 5000);
    };
  };

  /* A handshake that is refused says nothing to a script; an ordinary request does. */
  function askWhy() {
    fetch("/assets/mark.svg", { method: "HEAD", cache: "no-store" }).then(function (answer) {
      if (answer.status === 401 && !ex.isOpen()) ex.status("lost", "signed out", "load the page again to sign in");
    }, function () { /* no server there: it is said already */ });
  }

  ex.on = {
    status: function (message) {
      ex.status(message.state, message.what, message.more || ex.files.without(message.what), message.elapsed_s);
      if (message.asked) ex.scenarios.unlink();
      ex.settled(message);
      ex.scenarios.answered(message);
    },
    props: function () {},
    model: function (message) { ex.model(message); },
    query: function (message) { ex.putQuery(message.query); },
    adopt: function (message) { ex.adopt(message); },
    peeked: function (message) { ex.graph.peeked(message); },
    values: function (message) { ex.graph.values(message.values); },
    found: function (message) { ex.find.draw(message); },
    lesson: function (message) { ex.lessons.draw(message); },
    hello: function (message) { ex.files.hello(message); },
    opened: function (message) { ex.files.opened(message); },
    taking: function (message) { ex.take.show(message); },
    pins: function (message) { ex.pins.answered(message); },
    kept: function (message) { ex.scenarios.store(message); },
    moved: function (message) { ex.scenarios.moved(message); },
    same: function (message) { ex.scenarios.same(message); },
    shared: function (message) { ex.scenarios.shared(message); },
    go: function (message) { ex.go(message.controls); },
    sweep: function (message) { ex.sweep.draw(message); },
    take: function (message) { ex.take.fetch(message); },
    graph: function (message) {
      release(); /* its incumbent belongs to the graph before */
      ex.graph.draw(message);
    },
    overlay: function (message) { ex.graph.overlay(message); },
    bars: function (message) { if (held === null) ex.gantt.refine(message); },
    search: function (message) { ex.search.draw(message); },
    run: function (message) { ex.runs.draw(message); },
    say: function (message) { document.getElementById("announcer").textContent = message.text; },
    banner: function (message) {
      ex.setProps({ banner: { children: message.children, hidden: false } });
    },
    /* An incumbent waits a moment: when the search ends at once, only its result is drawn. */
    plan: function (message, received) {
      if (message.reason !== "incumbent") {
        release();
        draw(message, received);
        return;
      }
      newest = [message, received];
      if (held === null) held = setTimeout(function () { const last = newest; release(); draw(...last); }, INCUMBENT_HOLD_MS);
    },
  };

  function release() {
    clearTimeout(held);
    held = newest = null;
  }

  function draw(message, received) {
    ex.setProps({ banner: { children: [], hidden: true } });
    ex.pictured(message);
    ex.runs.lay(!!message.errors);
    ex.graph.overlay(message);
    ex.stages.draw(message.dag);
    ex.looks.rows(message.rows);
    ex.looks.stages(message.can_draw_stages, message.dag.note);
    ex.memory.draw(message.memory, message.strips);
    ex.gantt.draw(message, function () { ex.timing(message, received); });
    ex.setProps(message.props);
  }

  /* Where the time of a change went, for people who measure: newest last. */
  window.__pe_timing = [];
  ex.timing = function (message, received) {
    const now = performance.now();
    if (message.reason !== "final" || !ex.askedAt) return;
    const entry = {
      turn: message.turn,
      total_ms: now - ex.askedAt,
      solve_ms: message.timing.solve_ms,
      server_ms: message.timing.server_ms,
      figure_ms: message.timing.draw_ms,
      transport_ms: received - ex.askedAt - message.timing.server_ms,
      paint_ms: now - received,
    };
    window.__pe_timing.push(entry);
    if (window.__pe_timing.length > 500) window.__pe_timing.shift();
    performance.measure("explorer: change to picture", { start: ex.askedAt, end: now });
  };

  ex.whenReady = function (test, then) {
    const ready = test();
    if (ready) then(ready);
    else setTimeout(function () { ex.whenReady(test, then); }, 20);
  };
})();
