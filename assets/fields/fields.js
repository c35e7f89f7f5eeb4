/* The controls that callbacks hear of, as HTML's own fields (explorer/web/layout/fields.py has their properties). */
(function () {
  "use strict";
  const h = (...parts) => window.React.createElement(...parts);
  const named = (props) => Object.fromEntries(Object.entries(props).filter(([name]) => /^(aria|data)-/.test(name)));
  const wide = (props) => (props.width ? { width: props.width + "px" } : undefined);

  function Select(props) {
    const value = props.value === null || props.value === undefined ? "" : props.value;
    const option = (one) => h("option", { key: one.value, value: one.value, title: one.note }, one.label);
    const parts = props.data.map((one) => (one.items ? h("optgroup", { key: one.group, label: one.group }, one.items.map(option)) : option(one)));
    if (!props.data.flatMap((one) => one.items || one).some((one) => one.value === value)) parts.unshift(option({ value: value, label: value }));
    return h("select", {
      ...named(props), id: props.id, className: "field", value: value, disabled: props.disabled, style: wide(props),
      onChange: (event) => props.setProps({ value: event.target.value }),
    }, parts);
  }

  const OTHER_MS = 700; /* after what pause in writing a number is sent */

  /* Text that is sent when its writer pauses, presses Enter or leaves. shown: a value as text; parsed: a text as a value. */
  function useTyped(props, shown, parsed) {
    const React = window.React;
    const [text, setText] = React.useState(shown(props.value));
    const last = React.useRef(props.value);
    const timer = React.useRef(null);
    const forget = function () { clearTimeout(timer.current); timer.current = null; };
    const commit = function (now) {
      forget();
      const value = parsed(now);
      if (value === last.current) return;
      last.current = value;
      props.setProps({ value: value });
    };
    React.useEffect(function () { /* the value was set elsewhere */
      if (props.value === last.current) return;
      forget();
      last.current = props.value;
      setText(shown(props.value));
    }, [props.value]);
    return {
      value: text,
      onChange: function (event) {
        const now = event.target.value;
        forget();
        setText(now);
        timer.current = setTimeout(() => commit(now), props.pause_ms);
      },
      onKeyDown: function (event) { if (event.key === "Enter") commit(text); },
      onBlur: function () { commit(text); setText(shown(last.current)); },
    };
  }

  function NumberField(props) {
    const shown = (value) => (value === null || value === undefined ? "" : String(value));
    const least = props.min === undefined ? -Infinity : props.min;
    const most = props.max === undefined ? Infinity : props.max;
    const parsed = (text) => (text === "" || !isFinite(+text) ? "" : Math.min(most, Math.max(least, +text)));
    const typed = useTyped(props, shown, parsed);
    const strip = props.whole ? /[^0-9]/g : /[^0-9.]/g;
    const field = h("input", {
      ...named(props), ...typed, id: props.id, className: "field", type: "text", autoComplete: "off", placeholder: props.placeholder,
      inputMode: props.whole ? "numeric" : "decimal", style: wide(props), disabled: props.disabled,
      onChange: function (event) { typed.onChange({ target: { value: event.target.value.replace(strip, "") } }); },
      onKeyDown: function (event) { /* one more or one less, as fields for numbers do */
        const way = { ArrowUp: 1, ArrowDown: -1 }[event.key];
        if (!way || typed.value === "") { typed.onKeyDown(event); return; }
        event.preventDefault();
        typed.onChange({ target: { value: shown(parsed(String(+typed.value + way))) } });
      },
    });
    return props.unit ? h("span", { className: "measured-in" }, field, h("i", { "aria-hidden": "true" }, props.unit)) : field;
  }

  function TextField(props) {
    const typed = useTyped(props, (value) => value || "", (text) => text);
    const wrong = props.error ? props.id + "-error" : undefined;
    const field = h("input", {
      ...named(props), ...typed, id: props.id, className: "field", type: "text", autoComplete: "off", style: wide(props), disabled: props.disabled,
      "aria-invalid": props.error ? "true" : undefined, "aria-describedby": wrong,
    });
    return h("span", { className: "with-error" }, field, props.error ? h("span", { id: wrong, className: "bad small" }, props.error) : null);
  }

  const ticked = (props, kind) => h("input", {
    ...named(props), ...kind, id: props.id, type: "checkbox", checked: props.checked === true, disabled: props.disabled,
    onChange: (event) => props.setProps({ checked: event.target.checked }),
  });
  const Checkbox = (props) => h("label", { className: "checkbox" }, ticked(props, {}), h("span", null, props.children));
  const Switch = (props) => h("label", { className: "spread switch" }, h("span", null, props.children), ticked(props, { role: "switch" }));

  /* Any other whole number than those that stand there; empty while one of them is chosen. */
  function OtherNumber(props) {
    const shown = (value) => (props.data.some((one) => one.value === value) ? "" : value || "");
    const typed = useTyped({ ...props, pause_ms: OTHER_MS }, shown, (text) => (text === "" ? props.value : String(Math.min(props.most, Math.max(1, +text)))));
    return h("input", {
      ...typed, className: "other", type: "text", inputMode: "numeric", autoComplete: "off", placeholder: "…", disabled: props.disabled,
      "aria-label": props["aria-label"] + ": another number", title: "Another number",
      onChange: function (event) { typed.onChange({ target: { value: event.target.value.replace(/[^0-9]/g, "") } }); },
    });
  }

  function Segments(props) {
    const other = props.most ? h(OtherNumber, { key: "other", ...props }) : null;
    return h("div", { ...named(props), id: props.id, className: "segments", role: "radiogroup" }, props.data.map((one) => h("label", { key: one.value },
      h("input", {
        type: "radio", name: props.id, value: one.value, checked: one.value === props.value, disabled: props.disabled,
        onChange: () => props.setProps({ value: one.value }),
      }),
      h("span", null, one.label))), other);
  }

  /* Between its ends in steps; the upper end is a place too where it lies between two steps. */
  function Slider(props) {
    const { min, max, step, value } = props;
    const places = Math.floor((max - min) / step + 1e-9); /* steps below or at the upper end */
    const last = min + places * step;
    const nearest = (raw) => (max - raw < raw - last ? max : min + Math.min(places, Math.max(0, Math.round((raw - min) / step))) * step);
    const beside = function (way) {
      const at = (value - min) / step;
      if (way > 0) return at + 1e-6 >= places ? max : min + Math.floor(at + 1 + 1e-6) * step;
      return min + Math.max(0, Math.ceil(at - 1 - 1e-6)) * step;
    };
    const tenth = Math.max(step, (max - min) / 10);
    const keys = {
      ArrowRight: () => beside(1), ArrowUp: () => beside(1), ArrowLeft: () => beside(-1), ArrowDown: () => beside(-1),
      PageUp: () => nearest(Math.min(max, value + tenth)), PageDown: () => nearest(Math.max(min, value - tenth)), Home: () => min, End: () => max,
    };
    return h("div", { id: props.id, className: "slider" }, h("input", {
      ...named(props), type: "range", role: "slider", min: min, max: max, step: "any", value: value, "aria-valuenow": value, disabled: props.disabled,
      style: { "--at": (100 * (value - min)) / (max - min || 1) + "%" },
      onChange: (event) => props.setProps({ value: nearest(+event.target.value) }),
      onKeyDown: function (event) {
        if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        const next = keys[event.key]();
        if (next !== value) props.setProps({ value: next });
      },
    }));
  }

  /* Names of panels; a panel is whatever has the name as its data-panel. */
  function Tabs(props) {
    window.React.useEffect(function () {
      for (const panel of document.querySelectorAll("[data-panel]")) panel.hidden = panel.dataset.panel !== props.value;
    }, [props.value]);
    const go = (name) => props.setProps({ value: name });
    const names = props.data.map((one) => one.value);
    const onKeyDown = function (event) {
      const at = names.indexOf(props.value);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const name = names[(to + names.length) % names.length];
      go(name);
      document.getElementById("tab-" + name).focus();
    };
    return h("div", { ...named(props), id: props.id, className: "tabs", role: "tablist", onKeyDown: onKeyDown }, props.data.map((one) => h("button", {
      key: one.value, id: "tab-" + one.value, type: "button", role: "tab", className: one.value + "-label", "aria-selected": String(one.value === props.value),
      "aria-controls": "panel-" + one.value, tabIndex: one.value === props.value ? 0 : -1, onClick: () => go(one.value),
    }, one.label)));
  }

  Object.assign((window.placement_explorer = window.placement_explorer || {}), {
    Select, NumberField, TextField, Checkbox, Switch, Segments, Slider, Tabs,
  });
})();
