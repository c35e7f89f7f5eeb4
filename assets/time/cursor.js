/* The line that stands at an instant, over the schedule and over the memory of every device, with what is read there.
   A frame moves transforms only; words change from event to event. The schedule is not drawn again for it.
   host: box(): the element over the schedule; memory(): that with a card or a strip a device; timed(): that which is
   .timed while there is an instant. */
(function () {
  "use strict";
  const ex = window.explorer;
  const LEAST_ROW = 15; /* pixels: lower rows have no readings */
  const CLEAR_ROW = 34; /* in higher ones, readings stand below the bars */
  const HALF_PX = 8; /* of a reading's height */
  const ROOMY = 760; /* pixels of a schedule in which readings say what is held, too */
  const FLIP = 150; /* pixels from the left edge up to which readings stand right of the line, over what comes */

  ex.cursorOf = function (host) {
    const box = host.box;
    let readings = []; /* {element, device}: a row each */
    let cards = []; /* {element, value, device}: a card or a strip of memory each; a strip says no words */
    let lines = []; /* of a card, or of a panel of strips */
    let roomy = false;

    function element(name, className, parent) {
      const made = document.createElement(name);
      made.className = className;
      parent.appendChild(made);
      return made;
    }

    /* What the rows and cards are made again for every plan. */
    function lay(sight) {
      const place = box().querySelector(".readings");
      place.replaceChildren();
      readings = [];
      sight.rows.middle.forEach(function (_, row) {
        if (sight.rows.link[row]) return;
        readings.push({ element: element("span", "reading", place), row: row, device: sight.rows.devices[row][0] });
      });
      for (const old of host.memory().querySelectorAll(".mem-now, .mem-clip")) old.remove();
      cards = [...host.memory().querySelectorAll(".mem")].map(function (card) {
        const now = document.createElement("span");
        now.className = "mem-now";
        card.insertBefore(now, card.querySelector("svg"));
        const words = element("span", "mem-does", now);
        const value = element("b", "", now);
        return { element: words, value: value, device: +card.dataset.device };
      });
      for (const row of host.memory().querySelectorAll(".mem-row")) {
        cards.push({ element: null, value: element("b", "mem-now", row), device: +row.dataset.device });
      }
      lines = [...host.memory().querySelectorAll(".mem, .mem-rows")].map((place) => element("i", "mem-line", element("i", "mem-clip", place)));
      fit(sight);
    }

    /* As large as the schedule, each reading at its row. */
    function fit(sight) {
      box().style.height = sight.plot.clientHeight + "px";
      const press = box().querySelector(".axis-press").style;
      [press.left, press.width] = [sight.left + "px", sight.width + "px"];
      roomy = sight.width > ROOMY;
      for (const reading of readings) {
        reading.element.hidden = sight.tall(reading.row) < LEAST_ROW;
        const below = sight.tall(reading.row) < CLEAR_ROW ? 0 : sight.tall(reading.row) / 2 - HALF_PX;
        reading.element.style.top = sight.top(reading.row) + below + "px";
      }
    }

    /* The line at an instant; false if that is out of sight. */
    function move(sight, at, span) {
      const share = (at - sight.from) / (sight.to - sight.from);
      const inside = share >= -1e-6 && share <= 1 + 1e-6;
      const line = box().querySelector(".line");
      line.hidden = !inside;
      if (inside) {
        const x = sight.left + share * sight.width;
        line.style.transform = "translateX(" + x.toFixed(1) + "px)";
        line.classList.toggle("flipped", x - sight.left < FLIP);
      }
      const along = "translateX(" + ((100 * at) / span).toFixed(2) + "%)";
      for (const each of lines) each.style.transform = along;
      return inside;
    }

    const describe = (state) => (state.does !== null ? state.does : !state.works ? "no work" : state.idle ? "idle " + ex.figures.seconds(state.until - state.from) : "done");
    const holds = (state) => (state.held.length ? "holds " + ex.figures.ranges(state.held) : "");

    /* Of a name that is too long for a narrow schedule its end says more. */
    const brief = (text) => (roomy || text.length <= 24 ? text : "…" + text.slice(-20));

    function put(place, text) {
      if (place.textContent !== text) place.textContent = text;
    }

    /* What is read at the line. states: of every device. */
    function read(states) {
      for (const reading of readings) {
        const state = states[reading.device];
        const words = describe(state) + (roomy && state.held.length ? " · " + holds(state) : "");
        put(reading.element, brief(words));
        reading.element.classList.toggle("idle", state.does === null);
      }
      for (const card of cards) {
        const state = states[card.device];
        put(card.value, ex.figures.nbytes(state.bytes));
        if (!card.element) continue;
        put(card.element, [describe(state), holds(state)].filter(Boolean).join(" · "));
        card.element.parentNode.title = card.element.textContent + ", " + card.value.textContent;
      }
    }

    function show(on) {
      box().classList.toggle("on", on);
      host.timed().classList.toggle("timed", on);
    }

    return { box, lay, fit, move, read, show, describe, holds };
  };
})();
