// What is wider than the page is moved by keys: a browser may give such a frame no stop of its own, as Safari does.
const moved = { ".md-typeset__scrollwrap": "Table", ".diagram": "Diagram" };

new ResizeObserver(() => {
  for (const [selector, label] of Object.entries(moved)) {
    for (const frame of document.querySelectorAll(selector)) {
      const moves = frame.scrollWidth > frame.clientWidth;
      for (const [name, value] of Object.entries({ tabindex: "0", role: "group", "aria-label": label })) {
        if (moves) frame.setAttribute(name, value);
        else frame.removeAttribute(name);
      }
    }
  }
}).observe(document.body);
