/* The operator graph on a cytoscape instance: elements once per model, then only classes and labels per plan.
   host: instance(), or null while there is none; root(), whose CSS variables are the colours; and callbacks:
   selected(id or null), hovered(keys or null: what the schedule shows), expanded(id), released(), peeked(id): what is known
   of a box that is pointed at is wanted; `peeked` takes the answer. */
(function () {
  "use strict";
  const ex = window.explorer;

  function spread(devices) {
    const sorted = [...devices].sort((a, b) => a - b);
    if (sorted.length <= 2) return sorted.join(" ");
    const run = sorted[sorted.length - 1] - sorted[0] + 1 === sorted.length;
    return run ? sorted[0] + "–" + sorted[sorted.length - 1] : sorted.slice(0, 2).join(" ") + " …";
  }

  /* A box's label: its name, as long as there is room for beside its device's number. What goes is the middle. */
  const pen = document.createElement("canvas").getContext("2d");
  const labels = new Map(); /* the same few are asked for again with every plan */
  function fitting(name, beside, font, room) {
    const key = [name, beside, font, room].join("\n");
    if (labels.has(key)) return labels.get(key);
    const tail = beside ? " · " + beside : "";
    pen.font = font;
    let label = name + tail;
    const gap = name.includes("…") ? name.indexOf("…") : Math.ceil(name.length / 2);
    const ends = [name.slice(0, gap), name.slice(gap).replace("…", "")];
    while (pen.measureText(label).width > room && ends[0].length + ends[1].length > 3) {
      if (ends[0].length > ends[1].length) ends[0] = ends[0].slice(0, -1);
      else ends[1] = ends[1].slice(1);
      label = ends.join("…") + tail;
    }
    if (labels.size > 5000) labels.clear();
    labels.set(key, label);
    return label;
  }
  const LABEL_PX = 8; /* of a box's width that its label leaves free */
  const MARGIN_PX = 6; /* as in explorer/view/graph/layered_layout.py */
  const PEEK_MS = 140;
  const CHIP_ZOOM = 1.2; /* from which on their words are as large as min-zoomed-font-size */
  const MOST_ZOOM = 1.2; /* of a graph that is fitted: few boxes are not blown up */
  const having = (lists, which) => new Set(Object.keys(lists).filter((id) => lists[id].includes(which)));

  ex.boxes = function (host) {
    const view = { nodes: {}, stages: {}, keys: {}, expandable: new Set(), overlay: null, unwritten: false };
    let selected = null;
    let sought = null; /* a box that is selected once it is drawn */
    let byErrors = false; /* boxes are coloured by how far their prediction was off, not by device */
    const ready = (then) => ex.whenReady(host.instance, then);
    let numbers = null; /* what colours boxes in place of devices */
    let note = null; /* what is pointed at, in a corner away from it */
    let noted = null;
    let peeking = null;
    let mapped = () => {};

    const colour = (device) => getComputedStyle(host.root()).getPropertyValue("--d" + (device % 8)).trim();

    /* A box on several devices shows them as stripes. */
    function stripes(devices) {
      const stops = [];
      const places = [];
      devices.forEach(function (device, i) {
        stops.push(colour(device), colour(device));
        places.push((100 * i) / devices.length + "%", (100 * (i + 1)) / devices.length + "%");
      });
      return {
        "background-fill": "linear-gradient", "background-gradient-direction": "to-right",
        "background-gradient-stop-colors": stops.join(" "), "background-gradient-stop-positions": places.join(" "),
      };
    }

    function draw(message) {
      ready(function (cy) {
        view.expandable = new Set(message.expandable);
        const unplanned = view.overlay === null; /* no plan follows */
        view.overlay = null;
        lit.show(null);
        cy.maxZoom(message.max_zoom);
        cy.batch(function () {
          cy.elements().remove();
          cy.add(message.elements.map((e) => ({ ...e, group: e.data.source ? "edges" : "nodes" })));
        });
        fit();
        mapped();
        point(null);
        if (unplanned) revealSought(cy);
      });
    }

    /* Labels change what there is to lay out, so they are written once somebody can read them. */
    function write(cy) {
      writeChips(cy);
      const first = cy.nodes()[0];
      if (!view.unwritten || !first || cy.zoom() * first.numericStyle("font-size") < first.numericStyle("min-zoomed-font-size")) return;
      view.unwritten = false;
      const font = first.style("font-size") + " " + first.style("font-family");
      const room = first.width() - LABEL_PX;
      cy.batch(() => cy.nodes().forEach(function (node) {
        const reads = node.data("feeds") ? " ⇉" + (node.data("feeds") + 1) : "";
        const label = fitting(node.data("name") + reads, node.scratch("beside"), font, room);
        if (node.data("label") !== label) node.data("label", label);
      }));
    }

    /* What members of a group have of tensors stands on edges, which it would move apart, once somebody can read it. */
    function writeChips(cy) {
      const near = cy.zoom() >= CHIP_ZOOM;
      if (near === view.near) return;
      view.near = near;
      cy.batch(() => cy.edges().forEach((edge) => edge.toggleClass("chip", near && edge.scratch("chipped"))));
    }

    function overlay(message) {
      view.overlay = message;
      view.nodes = message.nodes;
      view.stages = message.stages;
      view.keys = message.keys || message.stages;
      ready(function (cy) {
        const off = byErrors && message.errors;
        const pinned = new Set(message.pinned || []);
        cy.batch(function () {
          cy.nodes().forEach(function (node) {
            const devices = message.nodes[node.id()] || [];
            const kind = view.expandable.has(node.id()) ? "module" : "operator";
            const device = devices.length === 1 ? "d" + (devices[0] % 64) : devices.length ? "mixed" : "";
            const paint = off ? off.classes[node.id()] || "error-none" : device;
            const look = kind + " " + paint + (pinned.has(node.id()) ? " pinned" : "");
            if (node.scratch("look") !== look) node.classes(look + (node.hasClass("selected") ? " selected" : ""));
            node.scratch("look", look);
            const shown = numbers ? numbers.labels[node.id()] || "" : devices.length ? spread(devices) : "";
            node.scratch("beside", off ? off.labels[node.id()] : shown);
            dress(node, numbers && !off ? numbered(node.id()) : devices.length > 1 && !off ? stripes([...devices].sort((a, b) => a - b)) : null);
          });
          cy.edges().forEach(function (edge) {
            const cut = message.cuts[edge.id()];
            edge.toggleClass("cut", !!cut);
            if (cut) edge.data({ label: cut[0], width: cut[1] });
            const chip = (message.chips || {})[edge.id()];
            edge.toggleClass("exchanged", !!chip && chip[1]);
            if (chip) edge.data("chip", chip[0]);
            edge.scratch("chipped", !!chip && !cut);
            edge.removeClass("inner");
          });
          for (const [box, bytes] of Object.entries(message.inside || {})) {
            const into = cy.getElementById(box).incomers("edge");
            const by = [".short", ".bowed", ".wrapped"].map((kind) => into.filter("edge" + kind)[0]).find((edge) => edge);
            if (by) by.addClass("inner").data("inside", "▾ " + bytes);
          }
          view.unwritten = true;
          view.near = null;
          write(cy);
        });
        mapped();
        if (selected) mark(selected);
        revealSought(cy);
      });
    }

    /* Numbers of somebody's own in place of devices; null: devices again. */
    function values(next) {
      numbers = next;
      ready(function (cy) {
        if (view.overlay) { overlay(view.overlay); return; }
        cy.batch(() => cy.nodes().forEach((node) => dress(node, numbered(node.id()))));
        mapped();
      });
    }

    const numbered = (id) => {
      const paint = numbers && numbers.fills[id];
      return paint ? { "background-color": paint[0], color: paint[1], "background-fill": "solid", "background-image": "none", "text-outline-width": 0 } : null;
    };

    function dress(node, style) {
      if (style) node.style(style);
      else if (node.scratch("dressed")) node.removeStyle();
      node.scratch("dressed", !!style);
    }

    /* By how far the prediction was off, or by device. */
    function colourBy(errors) {
      if (byErrors === errors) return;
      byErrors = errors;
      if (view.overlay) overlay(view.overlay);
    }

    function fit() {
      ready(function (cy) {
        cy.resize();
        cy.fit(undefined, MARGIN_PX);
        if (cy.zoom() > MOST_ZOOM) { cy.zoom(MOST_ZOOM); cy.center(); }
      });
    }

    /* Bright: the given boxes; all else dims. null: everything bright. */
    const lit = ex.lit(host.instance, host.root);
    const highlight = (bright, near) => lit.show(bright, near);

    const byDevice = (device) => new Set(Object.keys(view.nodes).filter((id) => view.nodes[id].includes(device)));
    const showStage = (stage, centre) => bring(having(view.stages, stage), centre);
    const showKey = (key, centre) => bring(having(view.keys, key), centre);

    function bring(boxes, centre) {
      highlight(boxes, null);
      if (!centre || !boxes.size) return;
      ready(function (cy) {
        const nodes = cy.nodes().filter((node) => boxes.has(node.id()));
        cy.animate({ center: { eles: nodes } }, { duration: 180 });
      });
    }

    /* Marked, without a callback. */
    function mark(id) {
      selected = id;
      ready(function (cy) {
        cy.nodes().removeClass("selected");
        if (id) cy.getElementById(id).addClass("selected");
      });
    }

    function select(id) {
      mark(id);
      host.selected(id);
      if (id) hover(id); else clear();
    }

    /* Select a box and bring it into sight; where modules hide it, once these are open. */
    function reveal(id) {
      ready(function (cy) {
        sought = cy.getElementById(id).length ? null : id;
        if (sought) { host.expanded(id); return; }
        select(id);
        centre(id);
      });
    }

    const revealSought = (cy) => { if (sought && cy.getElementById(sought).length) reveal(sought); };

    function centre(id) {
      ready(function (cy) {
        const node = cy.getElementById(id);
        if (node.length) cy.animate({ center: { eles: node }, zoom: Math.max(cy.zoom(), 0.8) }, { duration: 160 });
      });
    }

    function hover(id) {
      const boxes = new Set([id]);
      highlight(boxes, id);
      host.hovered(new Set(view.keys[id] || []));
    }

    /* What is pointed at says at once what it is called, and after a moment what a click would. */
    function point(node, low) {
      clearTimeout(peeking);
      noted = node && node.id();
      if (!note) return;
      note.hidden = !node;
      if (!node) return;
      note.classList.toggle("above", low);
      ex.element("b", "", node.data("full") || noted.slice(2), (note.replaceChildren(), note));
      if (host.peeked) peeking = setTimeout(() => host.peeked(noted), PEEK_MS);
    }

    function peeked(message) {
      if (!note || message.id !== noted) return;
      while (note.childNodes.length > 1) note.lastChild.remove();
      ex.element("span", "", message.text, note);
    }

    function clear() {
      if (selected) { hover(selected); return; }
      highlight(null);
      host.hovered(null);
    }

    /* Arrow keys: the nearest box in that direction. */
    function step(dx, dy) {
      const cy = host.instance();
      if (!cy || !cy.nodes().length) return;
      const from = selected ? cy.getElementById(selected) : null;
      if (!from || !from.length) { select(cy.nodes()[0].id()); return; }
      const at = from.position();
      let best = null;
      let least = Infinity;
      cy.nodes().forEach(function (node) {
        const p = node.position();
        const along = (p.x - at.x) * dx + (p.y - at.y) * dy;
        const aside = Math.abs((p.x - at.x) * dy) + Math.abs((p.y - at.y) * dx);
        if (along > 1 && along + 2 * aside < least) { least = along + 2 * aside; best = node; }
      });
      if (best) {
        select(best.id());
        if (cy.zoom() > 0.5) cy.animate({ center: { eles: best } }, { duration: 120 });
      }
    }

    /* canvas: the focusable frame around the drawing. Returns what stops the watching of its size. */
    function listen(canvas) {
      ready(function (cy) {
        note = ex.element("p", "pointed small", "", canvas);
        note.hidden = true;
        mapped = ex.minimap(canvas, cy, host.root);
        cy.on("zoom", () => write(cy));
        cy.on("mouseover", "node", (event) => {
          point(event.target, event.renderedPosition.y > canvas.clientHeight / 2);
          if (!selected) hover(event.target.id());
        });
        cy.on("mouseout", "node", () => { point(null); clear(); });
        cy.on("tap", "node", (event) => select(event.target.id()));
        cy.on("dbltap", "node", (event) => {
          const id = event.target.id();
          if (view.expandable.has(id)) { selected = null; host.expanded(id); }
        });
        cy.on("tap", () => canvas.focus({ preventScroll: true })); /* keys go on from what was clicked */
        cy.on("tap", (event) => { if (event.target === cy) { host.released(); select(null); } });
      });
      const watching = new ResizeObserver(() => { const cy = host.instance(); if (cy && cy.nodes().length) fit(); });
      watching.observe(canvas);
      canvas.addEventListener("keydown", function (event) {
        const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
        if (moves[event.key]) step(...moves[event.key]);
        else if (event.key === "Enter" && selected) host.expanded(selected);
        else if (event.key === "Escape") select(null);
        else return;
        event.preventDefault();
        event.stopPropagation();
      });
      return () => watching.disconnect();
    }

    return { draw, overlay, colourBy, fit, highlight, byDevice, showStage, showKey, select, mark, centre, clear, step, listen, reveal, peeked, values,
      selection: () => selected, bright: () => lit.bright(), repaint: () => { if (view.overlay) overlay(view.overlay); } };
  };
})();
