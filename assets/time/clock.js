/* Time in the schedule: play, steps, the line dragged, and what idle devices wait for. The course of a schedule is asked
   for once, when somebody first wants to be at an instant of it; from then on nobody is asked.
   host: part(name), an element of the controls ("back", "play", ..., "" for all of them); chart: sight(), look(from, to) and
   under(x, y), in seconds; frame(): the element with the chart; cursor: see ex.cursorOf; send(message); playable():
   whether there is a plan, and its schedule is what is drawn; release(): deselect. */
(function () {
  "use strict";
  const ex = window.explorer;
  const WHOLE_S = 15; /* seconds in which what is in sight is played */
  const SPEEDS = [1, 2, 0.5];
  const CALM_MS = 500; /* between two pictures, for who wants less motion */
  const SAY_MS = 350; /* an instant is described once somebody stays there */
  const READ_MS = 80; /* words that change more often while it plays nobody reads */
  const CLICK_PX = 4;
  const SPOKEN = 8;

  /* A device's idle time as a shape over a chart, null where it has no row. rows: of the schedule; idle_s: from and to, in
     seconds. */
  ex.idleShape = function (rows, device, idle_s, scale_s, colour) {
    const row = rows.devices.findIndex((devices, i) => !rows.link[i] && devices.includes(device));
    if (row < 0) return null;
    const half = 0.36 * rows.height[row];
    const [from, to] = idle_s.map((at) => at / scale_s);
    return { name: "idle", rects: [[from, to, rows.middle[row] - half, rows.middle[row] + half]], colour: colour, opacity: 0.28, edge: 1.5 };
  };

  ex.clockOf = function (host) {
    const { part, chart, cursor } = host;
    let course = null;
    let reading = null;
    let refused = ""; /* why there is none */
    let waiting = []; /* what is to be done once it is there */
    let at = null; /* seconds; null while stopped */
    let shown = -1; /* the interval that is described */
    let playing = null; /* the time of the last frame */
    let readAt = 0;
    let speed = 0;
    let saying = null;
    let states = [];
    let waitOf = -1; /* the device whose wait was shown last */
    const leaving = []; /* what ends the listening to all of the document */

    const calm = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

    /* Do something with the course of the drawn plan, which may have to come first. */
    function need(act) {
      if (course) { act(); return; }
      if (refused || !chart.sight()) return;
      if (!waiting.length) host.send({ type: "course" });
      waiting.push(act);
    }

    /* The course of what is drawn; played: null, with the reason in words, if there is none. */
    function take(played, words) {
      const acts = waiting;
      waiting = [];
      if (!played) {
        refused = words;
        part("words").textContent = part("says").textContent = refused;
        rest();
        able();
        return;
      }
      course = ex.course(played);
      reading = ex.figures.clock(course.span);
      acts.forEach((act) => act());
    }

    function able() {
      const can = !refused && host.playable();
      if (!can) stop();
      for (const name of ["back", "play", "on", "speed"]) part(name).disabled = !can;
      part("").classList.toggle("unable", !can);
      cursor.box().hidden = !can;
    }

    /* A plan was drawn: the time stays where it is in it; what is known of another one is forgotten. */
    function drawn(message) {
      const same = message.reason === "theme" || message.reason === "rows";
      if (!same) { course = null; refused = ""; stop(); }
      able();
      if (!host.playable()) { rest(); return; }
      const sight = chart.sight();
      if (sight) cursor.lay(sight);
      shown = -1;
      if (at === null) return;
      need(() => go(Math.min(at, course.span)));
    }

    /* Be at an instant. */
    function go(to) {
      at = Math.min(Math.max(0, to), course.span);
      cursor.show(true);
      place();
      if (playing === null || playing - readAt >= READ_MS || at >= course.span) showInstant();
      part("at").style.setProperty("--at", at / course.span);
      if (playing === null) settle();
    }

    /* In words: the time, and what goes on. */
    function showInstant() {
      readAt = playing === null ? 0 : playing;
      const now = course.place(at);
      if (now !== shown) {
        shown = now;
        states = Array.from({ length: course.devices }, (_, device) => course.device(device, at));
        cursor.read(states);
        showStates();
      }
      const instant = reading.read(at) + " / " + reading.read(course.span) + " " + reading.unit;
      if (part("time").textContent !== instant) part("time").textContent = instant;
    }

    function showStates() {
      const able = states.filter((state) => state.works);
      const work = able.filter((state) => state.does !== null).length;
      const moving = course.moving(at);
      part("words").textContent = work + " of " + able.length + (able.length === 1 ? " works" : " work") + (moving ? " · " + moving + (moving === 1 ? " transfer" : " transfers") : "");
      part("waits").disabled = !states.some((state) => state.idle);
      waitOf = -1;
    }

    /* Somebody stays at an instant: say what goes on there. */
    function settle() {
      clearTimeout(saying);
      const slider = part("at");
      slider.setAttribute("aria-valuenow", String(Math.round((1000 * at) / course.span)));
      slider.setAttribute("aria-valuetext", reading.read(at) + " " + reading.unit);
      saying = setTimeout(function () {
        const each = states.slice(0, SPOKEN).map((state) =>
          [state.name + " " + cursor.describe(state), cursor.holds(state), ex.figures.nbytes(state.bytes)].filter(Boolean).join(", "));
        const more = states.length > SPOKEN ? "; and " + (states.length - SPOKEN) + " more devices" : "";
        part("says").textContent = reading.read(at) + " " + reading.unit + ": " + each.join("; ") + more;
      }, SAY_MS);
    }

    /* The line where it belongs in what is in sight now. */
    function place() {
      if (at === null || !course) return true;
      const sight = chart.sight();
      return sight !== null && cursor.move(sight, at, course.span);
    }

    /* The schedule was drawn in another size. */
    function fit() {
      const sight = chart.sight();
      if (sight) cursor.fit(sight);
      able();
      place();
    }

    function press(on) {
      const button = part("play");
      button.textContent = on ? "❚❚" : "▶";
      button.setAttribute("aria-label", on ? "Pause (space)" : "Play the schedule (space)");
      button.title = button.getAttribute("aria-label");
    }

    function stop() {
      if (playing === null) return;
      playing = null;
      press(false);
      if (course && at !== null) { showInstant(); settle(); }
    }

    function play() {
      if (playing !== null) { stop(); return; }
      need(function () {
        const sight = chart.sight();
        if (at === null || at >= course.span * (1 - 1e-9)) at = 0;
        if (at < sight.from || at > sight.to) at = Math.max(0, sight.from);
        playing = performance.now();
        press(true);
        requestAnimationFrame(frame);
      });
    }

    function frame(now) {
      if (playing === null || !course) return;
      const passed = Math.max(0, now - playing);
      if (calm() && passed < CALM_MS) { requestAnimationFrame(frame); return; }
      playing = now;
      const sight = chart.sight();
      if (!sight) { stop(); return; }
      const width = Math.min(sight.to, course.span) - Math.max(0, sight.from);
      go(at + (Math.min(passed, calm() ? 2 * CALM_MS : 100) / 1000) * (width / WHOLE_S) * SPEEDS[speed]);
      if (at >= course.span) { stop(); return; }
      if (at > sight.to) chart.look(at - 0.05 * (sight.to - sight.from), at + 0.95 * (sight.to - sight.from));
      requestAnimationFrame(frame);
    }

    /* To the next event, or the one before; what is looked at closely follows. */
    function step(forward) {
      stop();
      need(function () {
        go(at === null ? 0 : forward ? course.next(at) : course.before(at));
        const sight = chart.sight();
        const half = (sight.to - sight.from) / 2;
        if (at < sight.from || at > sight.to) chart.look(at - half, at + half);
      });
    }

    /* Nowhere: as the page was before anybody asked for an instant. */
    function rest() {
      stop();
      clearTimeout(saying);
      at = null;
      shown = -1;
      cursor.show(false);
      for (const name of ["time", "says"]) part(name).textContent = "";
      part("words").textContent = refused;
      part("waits").disabled = true;
      const slider = part("at");
      slider.style.setProperty("--at", 0);
      slider.setAttribute("aria-valuenow", "0");
      slider.setAttribute("aria-valuetext", "stopped");
    }

    function askWait(device, at_s) {
      host.release(); /* what the inspector shows next belongs to no selection */
      host.send({ type: "waits", device: device, at_s: at_s });
    }

    /* What the next idle device waits for, at this instant. */
    function waits() {
      if (at === null || !course) return;
      const idle = states.map((state, device) => device).filter((device) => states[device].idle);
      if (!idle.length) return;
      stop();
      waitOf = idle.find((device) => device > waitOf) ?? idle[0];
      const state = states[waitOf];
      askWait(waitOf, (state.from + state.until) / 2);
    }

    /* Dragging: within the plot its pixels are time; on the slider its length is all of it. */
    function draggable(element, time) {
      element.addEventListener("pointerdown", function (event) {
        if (event.button) return;
        event.preventDefault();
        event.stopPropagation();
        stop();
        const to = (move) => need(() => go(time(move)));
        to(event);
        element.setPointerCapture(event.pointerId);
        const end = function () {
          element.removeEventListener("pointermove", to);
          element.removeEventListener("pointerup", end);
          element.removeEventListener("pointercancel", end);
        };
        element.addEventListener("pointermove", to);
        element.addEventListener("pointerup", end);
        element.addEventListener("pointercancel", end);
      });
    }

    function timeUnder(event) {
      const sight = chart.sight();
      const x = event.clientX - sight.plot.getBoundingClientRect().left - sight.left;
      return sight.from + (x / sight.width) * (sight.to - sight.from);
    }

    function timeOnSlider(event) {
      const track = part("at").getBoundingClientRect();
      return ((event.clientX - track.left) / track.width) * course.span;
    }

    /* A click on no bar: what does that device wait for? */
    function listenToIdle(frame) {
      let down = null;
      frame.addEventListener("pointerdown", (event) => { down = event.button ? null : [event.clientX, event.clientY]; }, true);
      const up = function (event) {
        const from = down;
        down = null;
        const sight = chart.sight();
        if (!from || !sight || Math.hypot(event.clientX - from[0], event.clientY - from[1]) > CLICK_PX) return;
        const target = event.composedPath()[0];
        if (!host.playable() || !target.closest || !target.closest(".chart canvas")) return;
        const spot = chart.under(...from);
        if (spot && !spot.bar && !sight.rows.link[spot.row]) askWait(sight.rows.devices[spot.row][0], spot.at_s);
      };
      document.addEventListener("pointerup", up, true);
      leaving.push(() => document.removeEventListener("pointerup", up, true));
    }

    function keys(event) {
      const within = (what) => event.target.closest && event.target.closest(what);
      if (event.ctrlKey || event.metaKey || event.altKey || within("input, textarea, select, dialog, [contenteditable], [role=slider]:not(.clock-at)")) return;
      const here = within(".clock-at");
      const acts = { ",": () => step(false), ".": () => step(true), w: waits };
      if (here || !within("button, summary, a, [role=button], [role=tab], [role=option], .point")) acts[" "] = play;
      if (here) {
        const by = (share) => need(() => go((at === null ? 0 : at) + share * course.span));
        Object.assign(acts, { ArrowRight: () => step(true), ArrowUp: () => step(true), ArrowLeft: () => step(false), ArrowDown: () => step(false), PageUp: () => by(0.1),
          PageDown: () => by(-0.1), Home: () => need(() => go(0)), End: () => need(() => go(course.span)), Escape: rest });
      }
      if (!acts[event.key] || part("play").disabled) return;
      event.preventDefault();
      event.stopPropagation();
      acts[event.key]();
    }

    function listen() {
      const onClick = (name, act) => part(name).addEventListener("click", act);
      onClick("back", () => step(false));
      onClick("on", () => step(true));
      onClick("play", play);
      onClick("waits", waits);
      onClick("speed", function () {
        speed = (speed + 1) % SPEEDS.length;
        part("speed").textContent = { 1: "1×", 2: "2×", 0.5: "½×" }[SPEEDS[speed]];
      });
      draggable(cursor.box().querySelector(".axis-press"), timeUnder);
      draggable(cursor.box().querySelector(".grip"), timeUnder);
      draggable(part("at"), timeOnSlider);
      part("at").addEventListener("pointerdown", () => part("at").focus());
      listenToIdle(host.frame());
      able();
    }

    return { able, drawn, fit, place, rest, take, listen, keys, say: (words) => { part("says").textContent = words; }, stop() { stop(); clearTimeout(saying); leaving.forEach((leave) => leave()); } };
  };
})();
