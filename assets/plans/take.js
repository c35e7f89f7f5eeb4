/* Taking the plan away: the menu says what there is, the server writes it, the browser fetches it. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const menu = () => document.getElementById("export-menu");

  function show(message) {
    const note = document.getElementById("export-note");
    note.textContent = message.why;
    if (message.lines) note.append(listed(message.lines));
    if (message.nearest) note.append(" ", whole(message.nearest));
    note.classList.toggle("bad", !!message.bad);
    for (const button of menu().querySelectorAll("[data-arg]")) {
      button.disabled = !message.can || !!message.busy;
      button.title = message.can ? "" : message.why;
    }
  }

  function listed(lines) {
    const list = document.createElement("ul");
    for (const line of lines) list.appendChild(document.createElement("li")).textContent = line;
    return list;
  }

  /* What a launcher cannot express may be moved: every module whole, where most of its work is. */
  function whole(name) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "tool";
    button.dataset.act = "export";
    button.dataset.arg = name;
    button.textContent = "Snap to module boundaries";
    return button;
  }

  /* Same origin, and served as a download only. */
  function fetch(message) {
    if (!/^\/take\/[A-Za-z0-9_-]{20,60}$/.test(message.href)) return;
    const link = document.createElement("a");
    link.href = message.href;
    link.download = message.name;
    (message.stay ? menu() : document.body).appendChild(link); // a click beside the menu closes it
    link.click();
    link.remove();
    if (!message.stay) menu().open = false;
    document.getElementById("announcer").textContent = "exported " + message.name;
  }

  function listen() {
    document.addEventListener("click", function (event) {
      if (menu().open && !menu().contains(event.target)) menu().open = false;
    });
    menu().addEventListener("keydown", function (event) {
      const items = [...menu().querySelectorAll("button:enabled")];
      const moves = { ArrowDown: 1, ArrowUp: -1 };
      if (event.key === "Escape") { menu().open = false; menu().querySelector("summary").focus(); }
      else if (moves[event.key] && menu().open && items.length) {
        const at = items.indexOf(document.activeElement);
        items[(at + moves[event.key] + items.length) % items.length].focus();
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  ex.take = { show, fetch, listen };
})();
