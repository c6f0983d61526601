// Draws the figures of the page in its theme, and again when the theme, the axis or the paper changes.
(function () {
  "use strict";
  let figures = JSON.parse(document.getElementById("figures").textContent);
  const root = document.documentElement;
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  // Named one by one: Plotly's own choice has a button that uploads the chart.
  const buttons = [["toImage", "zoom2d", "pan2d", "resetScale2d"]];
  const isNarrow = window.matchMedia("(max-width: 600px)").matches;
  const config = {
    displaylogo: false,
    displayModeBar: isNarrow ? false : "hover",
    modeBarButtons: buttons,
    plotlyServerURL: "",
    responsive: true,
  };
  const chosenAxes = {};

  function color(name) {
    return getComputedStyle(root).getPropertyValue(name === "muted" ? "--muted" : "--c" + name).trim();
  }

  // "@1" is the theme's second colour, "@1/0.2" the same with little opacity.
  function resolved(value) {
    if (Array.isArray(value)) return value.map(resolved);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, resolved(inner)]));
    }
    const match = typeof value === "string" && /^@(\d|muted)(?:\/([\d.]+))?$/.exec(value);
    if (!match) return value;
    const hex = color(match[1]);
    if (!match[2]) return hex;
    const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return "rgba(" + parts.join(",") + "," + match[2] + ")";
  }

  function layoutOf(figure, width) {
    const style = getComputedStyle(root);
    const [foreground, muted, grid, card] = ["--fg", "--muted", "--grid", "--card"].map((name) =>
      style.getPropertyValue(name).trim());
    const axis = {
      gridcolor: grid, linecolor: grid, zeroline: false, automargin: true, exponentformat: "SI",
      tickfont: { color: muted },
    };
    const given = resolved(figure.layout);
    const shared = {
      height: figure.height,
      width: width,
      autosize: width === undefined,
      margin: { l: 8, r: 12, t: 28, b: 8 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: foreground },
      hoverlabel: { bgcolor: card, bordercolor: grid, font: { color: foreground } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: muted, activecolor: foreground },
      hovermode: "x",
      legend: { orientation: "h", x: 0, y: 1.04, yanchor: "bottom", font: { color: foreground } },
      dragmode: window.matchMedia("(pointer: coarse)").matches ? false : "zoom",
    };
    const layout = Object.assign(shared, given);
    layout.xaxis = Object.assign({}, axis, given.xaxis);
    layout.yaxis = Object.assign({}, axis, given.yaxis);
    // What a reader has zoomed or hidden stays so when the data change.
    layout.uirevision = chosenAxes[figure.title] || "as drawn first";
    return layout;
  }

  function draw(id, width) {
    const figure = figures[id];
    const traces = resolved(figure.traces);
    const layout = layoutOf(figure, width);
    const label = chosenAxes[figure.title];
    if (label && figure.axes[label]) {
      figure.axes[label].forEach((x, at) => { traces[at].x = x; });
      layout.xaxis.title = { text: label };
      if (label !== Object.keys(figure.axes)[0]) layout.shapes = [];
    }
    return Plotly.react(id, traces, layout, config);
  }

  function drawAll() {
    Object.keys(figures).forEach((id) => draw(id));
  }

  // Paper is laid out only after this, so the widths of its columns are given.
  function drawForPaper() {
    Object.keys(figures).forEach((id) => {
      draw(id, document.getElementById(id).closest(".small") ? 320 : 660);
    });
  }

  function setTheme(name) {
    root.dataset.theme = name;
    drawAll();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-figure]");
    if (!button) return;
    chosenAxes[figures[button.dataset.figure].title] = button.dataset.axis;
    button.parentElement.querySelectorAll("button").forEach((other) => {
      other.setAttribute("aria-pressed", String(other === button));
    });
    draw(button.dataset.figure);
  });
  // A page that is live gives its new data so; only what has changed is drawn.
  document.addEventListener("figures", (event) => {
    const before = figures;
    figures = event.detail;
    Object.keys(figures).forEach((id) => {
      const isEmpty = !document.getElementById(id).childElementCount;
      if (isEmpty || JSON.stringify(before[id]) !== JSON.stringify(figures[id])) draw(id);
    });
  });
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(root.dataset.theme === "dark" ? "light" : "dark");
  });
  prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));
  let themeOnScreen;
  window.addEventListener("beforeprint", () => {
    themeOnScreen = root.dataset.theme;
    root.dataset.theme = "light";
    drawForPaper();
  });
  window.addEventListener("afterprint", () => setTheme(themeOnScreen));
  setTheme(prefersDark.matches ? "dark" : "light");
})();
