// Unpacks the charting library and draws the figures, in the colours of the reader's scheme, and again when that changes.
(async () => {
  const packed = Uint8Array.from(atob(document.getElementById("library").textContent.trim()), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const library = document.createElement("script");
  library.textContent = await new Response(unpacked).text();
  document.head.append(library);

  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // Okabe, Ito: "Color Universal Design" (2008); blue, yellow and grey adjusted to the background.
  const light = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#6b6b6b", "#b8a800"];
  const bright = ["#4aa3df", "#e69f00", "#1fb88c", "#e8743b", "#d98fb6", "#9fd4f5", "#a8a8a8", "#f0e442"];
  const palette = () => (dark.matches ? bright : light);
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const coloured = (trace) => {
    if (trace.color === undefined) return trace;
    const { color: place, ...rest } = trace;
    const color = palette()[place % palette().length];
    // Places behind the palette are told apart by a pattern.
    const shape = ["", "/", "x", "."][Math.floor(place / palette().length) % 4];
    return trace.type === "bar"
      ? { ...rest, marker: { color, pattern: { shape, bgcolor: variable("--panel") } }, ...(rest.error_x && { error_x: { ...rest.error_x, color: variable("--text") } }) }
      : { ...rest, line: { ...rest.line, color } };
  };

  const template = () => {
    const axis = {
      gridcolor: variable("--line"), linecolor: variable("--line"), zerolinecolor: variable("--line"), automargin: true,
      exponentformat: "SI", title: { standoff: 8 },
    };
    return { layout: {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: "system-ui, sans-serif", size: 12, color: variable("--text") },
      xaxis: axis, yaxis: axis, margin: { l: 10, r: 16, t: 10, b: 10 }, hoverlabel: { namelength: -1 },
      legend: { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom", traceorder: "normal" },
    } };
  };

  // A legend lies above its chart and takes rows of its own, as many as the width demands.
  const legend = (figure, width) => {
    if (!figure.layout.showlegend) return 0;
    const longest = Math.max(...figure.data.flatMap((trace) => trace.name.split("<br>")).map((line) => line.length));
    const columns = Math.max(1, Math.floor(width / (longest * 7 + 50)));
    const lines = figure.data.map((trace) => trace.name.split("<br>").length);
    return Math.ceil(lines.reduce((sum, n) => sum + n, 0) / columns) * 18 + 12;
  };

  const drawn = new Set();
  const draw = async (figure) => {
    const element = document.getElementById(figure.id);
    const layout = structuredClone({ ...figure.layout, height: element.clientHeight, template: template() });
    await Plotly.react(element, figure.data.map((trace) => coloured(structuredClone(trace))), layout, { responsive: true, displayModeBar: false });
    drawn.add(figure);
    document.documentElement.dataset.drawn = drawn.size;
  };

  // Charts are drawn when they come near the screen: a study may have hundreds.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((entry) => entry.isIntersecting)) {
      near.unobserve(entry.target);
      draw(figures.find((figure) => figure.id === entry.target.id));
    }
  }, { rootMargin: "400px" });
  for (const figure of figures) {
    const element = document.getElementById(figure.id);
    element.style.height = `${figure.layout.height + legend(figure, element.clientWidth)}px`;
    near.observe(element);
  }
  dark.addEventListener("change", () => drawn.forEach(draw));
  document.documentElement.dataset.charts = figures.length;
})();
