/* Opening a file: drop it or choose it, send it in one POST, and use what the server says it holds. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const RECENT = "explorer-recent";
  const MOST_RECENT = 6;
  let token = null;
  let most = 0;
  let sending = null;
  let small = { reads: "", words: "" }; /* a file that was sent without its weights: what the server says when it reads it, and how much was left out */
  let depth = 0; /* of elements that a dragged file is over */
  const dialog = () => document.getElementById("open-dialog");

  function hello(message) {
    token = message.token;
    most = message.most_bytes;
  }

  function banner(words) {
    const span = (children) => ({ namespace: "dash_html_components", type: "Span", props: { children: children } });
    const bold = { namespace: "dash_html_components", type: "B", props: { children: "This file was not opened; nothing was changed." } };
    ex.setProps({ banner: { children: [bold, span(words)], hidden: false } });
  }

  const META = "Its weights are not needed: export the model on the meta device, with torch.device(\"meta\"): model = …; "
    + "torch.export.save(torch.export.export(model, inputs), \"model.pt2\")";

  /* What is to be said beside the server's words of what it does. */
  const without = (what) => (what === small.reads ? small.words : "");

  function refuse(words) {
    sending = null;
    banner(words);
    ex.back();
  }

  async function send(file) {
    if (dialog().open) dialog().close();
    if (!token || !ex.isOpen()) return refuse(file.name + ": there is no connection to the server");
    if (sending) return banner(file.name + ": another file is still on its way");
    const request = (sending = new XMLHttpRequest());
    const isExport = /\.pt2$/i.test(file.name);
    const { body, left } = (isExport && (await ex.withoutWeights(file))) || { body: file, left: 0 };
    if (body.size > most) return refuse(file.name + ": " + Math.round(body.size / 2 ** 20).toLocaleString("en") + " MiB" + (left ? " without its weights" : "") + "; at most " + most / 2 ** 20 + " MiB are taken. "
      + (isExport ? META : "Open it in place: placement-explorer app FILE"));
    const words = left ? ex.figures.nbytes(left) + " of weights left out" : "";
    small = { reads: "reading " + file.name, words };
    request.open("POST", "/open");
    request.setRequestHeader("x-page-token", token);
    request.setRequestHeader("x-file-name", encodeURIComponent(file.name).slice(0, 900));
    request.upload.onprogress = (event) => ex.status("loading", "sending " + file.name, (words && words + " · ") + Math.round((100 * event.loaded) / (event.total || 1)) + " %");
    request.onload = function () {
      sending = null;
      if (request.status === 200) return;
      let why = "the server refused it";
      try { why = JSON.parse(request.responseText).refused || why; } catch { /* not ours */ }
      refuse(file.name + ": " + why);
    };
    request.onerror = () => refuse(file.name + ": it did not arrive");
    ex.status("loading", "sending " + file.name, words);
    request.send(body);
  }

  function recent() {
    try {
      const stored = JSON.parse(localStorage.getItem(RECENT) || "[]");
      return stored.filter((each) => typeof each.file === "string" && typeof each.name === "string").slice(0, MOST_RECENT);
    } catch { return []; }
  }

  function remember(message) {
    const others = recent().filter((each) => each.file !== message.file);
    localStorage.setItem(RECENT, JSON.stringify([{ file: message.file, name: message.name, what: message.what, memory: message.memory_bytes }, ...others].slice(0, MOST_RECENT)));
  }

  /* Bytes of each device of a cluster that was chosen, 0 without a cap; undefined where that is not known. */
  function memory(cluster) {
    const named = [...document.querySelectorAll("#named-cluster option")].find((each) => each.value === cluster);
    const known = recent().find((each) => each.file === cluster);
    return named ? Number(named.dataset.memory) : known ? known.memory : undefined;
  }

  function make(name, className, text, parent) {
    const made = document.createElement(name);
    made.className = className;
    made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  function listRecent() {
    const place = document.getElementById("open-recent");
    const files = recent();
    place.hidden = !files.length;
    place.replaceChildren();
    if (!files.length) return;
    make("h3", "", "Recent", place);
    const row = make("div", "actions", "", place);
    for (const each of files) {
      const button = make("button", "tool", each.name, row);
      button.title = each.what || "";
      button.addEventListener("click", function () { dialog().close(); ex.send({ type: "reopen", element: each.file }); });
    }
  }

  /* What was opened: a model and a plan are chosen as models are, costs and clusters stand beside the settings. */
  function opened(message) {
    remember(message);
    ex.setProps({ banner: { children: [], hidden: true } });
    document.getElementById("announcer").textContent = "opened " + message.name + ": " + [message.words, without("reading " + message.name)].filter(Boolean).join(", ");
    if (message.what === "model" || message.what === "plan") {
      if (message.what === "plan") ex.quietly();
      else ex.loudly(); /* right after a plan, too */
      if (message.controls.devices) ex.setDevices(message.controls.devices);
      window.dash_clientside.set_props("micro-batches", { value: "auto" });
      ex.addModel(message.file, message.name);
      if (message.what === "plan") for (const id of Object.keys(message.controls)) if (id !== "devices") window.dash_clientside.set_props(id, { value: message.controls[id] });
    } else if (message.what === "profile" || message.what === "times") {
      const measured = { profile: null, times_file: null }; /* one of them: a profile has all times of its model */
      measured[message.what === "times" ? "times_file" : "profile"] = message.file;
      ex.putFiles(measured, { [message.file]: message.name });
    } else if (message.what === "cluster") {
      if (message.controls.devices) ex.setDevices(message.controls.devices);
      ex.putFiles({ cluster: message.file }, { [message.file]: message.name });
    }
  }

  /* Chips of what stands in place of settings, each with a way to take it out. */
  function chips(files, names) {
    const place = document.getElementById("opened-files");
    const named = document.getElementById("named-cluster");
    const option = named && [...named.options].find((each) => each.value === (files.cluster || ""));
    if (named) named.value = option ? option.value : "";
    if (option && option.value) names = { ...names, [option.value]: option.textContent };
    const saved = document.getElementById("saved-costs");
    const measured = files.profile ? "profile/" + files.profile : files.times_file ? "times_file/" + files.times_file : "";
    const savedOption = saved && [...saved.options].find((each) => each.value === measured);
    if (saved) saved.value = savedOption ? savedOption.value : "";
    if (savedOption && measured) names = { ...names, [files.profile || files.times_file]: savedOption.textContent };
    place.replaceChildren();
    for (const [what, words] of [["profile", "Costs"], ["times_file", "Times"], ["cluster", "Cluster"]]) {
      if (!files[what]) continue;
      const chip = make("div", "opened", "", place);
      make("span", "", words + ": " + (names[files[what]] || "a file"), chip).title = names[files[what]] || "";
      const out = make("button", "tool", "×", chip);
      out.setAttribute("aria-label", "Leave out " + words.toLowerCase());
      out.addEventListener("click", () => ex.putFiles({ [what]: null }, {}));
    }
    document.body.classList.toggle("own-cluster", !!files.cluster);
    document.body.classList.toggle("own-costs", !!measured); /* devices are of the kind that was measured */
  }

  /* A cluster by name takes the place of the settings for devices, as one from a file does. */
  function nameCluster(named) {
    const chosen = named.selectedOptions[0];
    if (chosen.value) ex.setDevices(Number(chosen.dataset.devices));
    ex.putFiles({ cluster: chosen.value || null }, chosen.value ? { [chosen.value]: chosen.title } : {});
  }

  /* Costs that are saved under a name: a profile or operator times, never both. */
  function nameCosts(saved) {
    const [what, ...name] = saved.value.split("/");
    ex.putFiles({ profile: null, times_file: null, ...(what ? { [what]: name.join("/") } : {}) }, {});
  }

  function listen() {
    const saved = document.getElementById("saved-costs");
    if (saved) saved.addEventListener("change", () => nameCosts(saved));
    const named = document.getElementById("named-cluster");
    if (named) named.addEventListener("change", () => nameCluster(named));
    const input = document.createElement("input");
    input.type = "file";
    input.id = "open-input";
    input.hidden = true;
    input.addEventListener("change", function () {
      if (input.files.length) send(input.files[0]);
      input.value = "";
    });
    document.body.appendChild(input);
    document.getElementById("open-file").addEventListener("click", function () { ex.send({ type: "opening" }); listRecent(); dialog().showModal(); });
    document.getElementById("open-choose").addEventListener("click", () => input.click());
    dialog().addEventListener("click", function (event) {
      const example = event.target.closest("[data-example]");
      if (example) window.dash_clientside.set_props("model", { value: example.dataset.example });
      if (example || event.target === dialog() || event.target.closest("[data-close]")) dialog().close();
    });
    const withFile = (event) => event.dataTransfer && [...event.dataTransfer.types].includes("Files");
    const over = (by) => { depth = Math.max(0, depth + by); document.body.classList.toggle("dropping", depth > 0); };
    window.addEventListener("dragenter", (event) => { if (!withFile(event)) return; if (depth === 0) ex.send({ type: "opening" }); over(1); });
    window.addEventListener("dragleave", (event) => { if (withFile(event)) over(-1); });
    window.addEventListener("dragover", (event) => { if (withFile(event)) event.preventDefault(); });
    window.addEventListener("drop", function (event) {
      if (!withFile(event)) return;
      event.preventDefault();
      depth = 0;
      over(0);
      if (event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
    });
  }

  ex.files = { hello, send, opened, chips, listen, memory, without };
})();
