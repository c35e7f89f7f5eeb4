/* Finding an operator: press / and type; the arrows choose, Enter shows it in the graph.
   host: frame(), in which it opens; focused(), what has the focus again; send(message); before(), when it opens; pick(box). */
(function () {
  "use strict";
  const ex = window.explorer;
  let numbers = 0;

  ex.finder = function (host) {
    const own = "found" + numbers++;
    let box = null;
    let input = null;
    let list = null;
    let note = null;
    let items = [];
    let at = 0;
    let timer = null;

    function make(name, className, parent, attributes) {
      const made = document.createElement(name);
      if (className) made.className = className;
      for (const key of Object.keys(attributes || {})) made.setAttribute(key, attributes[key]);
      parent.appendChild(made);
      return made;
    }

    function build() {
      box = make("div", "find", host.frame());
      box.hidden = true;
      input = make("input", "", box, {
        type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": own, "aria-label": "Find an operator or module",
        placeholder: "Name, /regexp/, type: module: shape:", autocomplete: "off", spellcheck: "false", maxlength: "80",
      });
      list = make("ul", "", box, { id: own, role: "listbox", "aria-label": "Operators found" });
      note = make("p", "small quiet", box, { role: "status" });
      input.addEventListener("input", function () {
        clearTimeout(timer);
        timer = setTimeout(() => host.send({ type: "find", text: input.value }), 80);
      });
      input.addEventListener("keydown", function (event) {
        const moves = { ArrowDown: 1, ArrowUp: -1 };
        if (moves[event.key] && items.length) mark((at + moves[event.key] + items.length) % items.length);
        else if (event.key === "Enter") pick(at);
        else if (event.key === "Escape") close();
        else return;
        event.preventDefault();
        event.stopPropagation();
      });
      input.addEventListener("blur", () => setTimeout(() => { if (!box.contains(box.getRootNode().activeElement)) box.hidden = true; }, 120));
    }

    function open() {
      if (!box) build();
      host.before();
      box.hidden = false;
      input.focus();
      input.select();
    }

    function close() {
      box.hidden = true;
      host.focused().focus();
    }

    function mark(which) {
      at = which;
      [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
      if (list.children[at]) {
        input.setAttribute("aria-activedescendant", list.children[at].id);
        list.children[at].scrollIntoView({ block: "nearest" });
      }
    }

    function pick(which) {
      const item = items[which];
      if (!item) return;
      close();
      host.pick(item.box);
    }

    function draw(message) {
      if (!box || message.text !== input.value) return;
      items = message.items;
      list.replaceChildren();
      items.forEach(function (item, i) {
        const row = make("li", "", list, { role: "option", id: own + "-" + i });
        make("b", "", row).textContent = item.name;
        make("span", "", row).textContent = [item.what, item.where].filter(Boolean).join(" · ");
        row.title = item.name;
        row.addEventListener("mousedown", function (event) { event.preventDefault(); pick(i); });
      });
      note.textContent = !message.text.trim() ? "" : !message.matches ? "No operator has that in its name."
        : message.matches > items.length ? items.length + " of " + message.matches.toLocaleString("en") : "";
      mark(0);
    }

    return { draw, open };
  };
})();
