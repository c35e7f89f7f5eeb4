/* Parts of the page that Dash hears nothing of: made as HTML by the server (explorer/web/layout/plain.py), changed here.
   With a component of Dash's for each of them every change of the page would reach hundreds that it does not concern. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  const VOID = ["br", "hr", "img", "input", "wbr"];
  const BOOLEAN = ["hidden", "disabled", "open", "checked"];
  const NOT_DRAWN = ["children", "key", "n_clicks"];
  const NAMES = { className: "class", htmlFor: "for" };
  const drawn = new WeakMap(); /* element -> the component that it was made of, or changed to */

  Object.assign((window.placement_explorer = window.placement_explorer || {}), {
    Plain: function (props) {
      const inside = VOID.includes(props.tag) ? {} : { dangerouslySetInnerHTML: { __html: props.html } };
      return window.React.createElement(props.tag, { ...props.own, ...inside, "data-plain": "" });
    },
    Stored: () => null,
  });

  function put(element, name, value) {
    if (NOT_DRAWN.includes(name)) return;
    if (name === "style") {
      element.removeAttribute("style");
      for (const key of Object.keys(value || {})) {
        if (key.startsWith("--")) element.style.setProperty(key, value[key]);
        else element.style[key] = value[key];
      }
      return;
    }
    const attribute = NAMES[name] || name;
    if (value === null || value === undefined || (value === false && !attribute.includes("-"))) element.removeAttribute(attribute);
    else if (BOOLEAN.includes(attribute)) element.toggleAttribute(attribute, Boolean(value));
    else element.setAttribute(attribute, String(value));
  }

  const isPart = (part) => part !== null && typeof part === "object";
  const listed = (children) => (Array.isArray(children) ? children.flat(Infinity) : [children]).filter((part) => part !== null && part !== undefined && part !== "" && typeof part !== "boolean");

  function made(part) {
    if (!isPart(part)) return document.createTextNode(String(part));
    const element = document.createElement(part.type.toLowerCase());
    for (const name of Object.keys(part.props)) put(element, name, part.props[name]);
    for (const child of listed(part.props.children)) element.appendChild(made(child));
    drawn.set(element, part.props);
    return element;
  }

  const alike = (node, part) => (isPart(part)
    ? drawn.has(node) && node.nodeName === part.type.toUpperCase() && drawn.get(node).key === part.props.key
    : node.nodeType === Node.TEXT_NODE);

  /* Elements stay where they can: so do focus, what is scrolled and what is unfolded. */
  function fill(element, children) {
    const wanted = listed(children);
    wanted.forEach(function (part, i) {
      const node = element.childNodes[i];
      if (!node) element.appendChild(made(part));
      else if (!alike(node, part)) element.replaceChild(made(part), node);
      else if (!isPart(part)) { if (node.data !== String(part)) node.data = String(part); }
      else change(node, part.props);
    });
    while (element.childNodes.length > wanted.length) element.lastChild.remove();
  }

  /* An element from what it was made of to what it shall be. */
  function change(element, props) {
    const was = drawn.get(element);
    for (const name of Object.keys({ ...was, ...props })) {
      if (JSON.stringify(was[name]) !== JSON.stringify(props[name]) && name !== "children") put(element, name, props[name]);
    }
    drawn.set(element, props);
    fill(element, props.children);
  }

  /* From now on Dash is notified only of what is its own. */
  function install() {
    const setProps = window.dash_clientside.set_props;
    const able = {}; /* whether controls of Dash's can be used, as last set */
    window.dash_clientside.set_props = function (id, props) {
      const element = typeof id === "string" ? document.getElementById(id) : null;
      if (element && element.closest("[data-plain]")) {
        for (const name of Object.keys(props)) put(element, name, props[name]);
        if ("children" in props) fill(element, props.children);
        return;
      }
      if (Object.keys(props).join() === "disabled") {
        if (able[id] === props.disabled) return;
        able[id] = props.disabled;
      }
      setProps(id, props);
    };
  }

  ex.plain = { install: install };
})();
