// Unpacks the tables of cells and the data of charts, and draws the charts as SVG: lying bars with intervals (grouped or stacked), lines
// over linear or logarithmic axes, heat maps. Colours are variables of the style sheet, which knows the reader's scheme. Labels come as
// HTML, escaped, with <br> between their lines.
(async () => {
  const packed = Uint8Array.from(atob(document.getElementById("bulk").textContent), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const { html, figures } = JSON.parse(await new Response(unpacked).text());
  document.getElementById("cells").innerHTML = html;
  const wanted = location.hash && document.getElementById(location.hash.slice(1));
  if (wanted) {
    for (let part = wanted.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    wanted.scrollIntoView();
  }

  const LINE = 14;
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "12px system-ui, sans-serif";
  const lines = (label) => label.split("<br>");
  const widest = (labels) => Math.max(0, ...labels.flatMap(lines).map((line) => pen.measureText(plain(line)).width));
  const text = (label, x, y, anchor, more = "") =>
    `<text x="${x}" y="${y}" text-anchor="${anchor}" ${more}>${lines(label).map((line, i) => `<tspan x="${x}" dy="${i && LINE}">${line}</tspan>`).join("")}</text>`;
  // Escaped HTML as the text that it means.
  const plain = (label) => Object.assign(document.createElement("textarea"), { innerHTML: label }).value;
  const line = (x1, y1, x2, y2, kind) => `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" class="${kind}"/>`;

  const exact = (x) => x.toLocaleString("en", { maximumSignificantDigits: 4 });
  const short = (x) => {
    const [size, unit] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([size]) => Math.abs(x) >= size) ?? [1, ""];
    return Number((x / size).toPrecision(3)) + unit;
  };
  const mark = (name, ...values) => `${name.replaceAll("<br>", " ")}: ${values.join(", ")}`;
  const fill = (color) => `fill="var(--${color})"`;

  // A scale from values to pixels, with its ticks.
  const linear = (greatest, from, to) => {
    const high = greatest > 0 ? greatest * 1.04 : 1;
    const least = (high * 70) / Math.abs(to - from);
    const power = 10 ** Math.floor(Math.log10(least));
    const step = power * [1, 2, 5, 10].find((n) => n * power >= least);
    const ticks = Array.from({ length: Math.floor(high / step) + 1 }, (_, i) => [i * step, short(i * step)]);
    return { at: (x) => from + (x / high) * (to - from), ticks };
  };
  const logarithmic = (values, axis, from, to) => {
    const [low, high] = [Math.min(...values), Math.max(...values)].map(Math.log10);
    const span = Math.max(high - low, 0.3);
    const powers = Array.from({ length: 40 }, (_, i) => 10 ** (i - 15)).flatMap((p) => (span < 1.5 ? [p, 2 * p, 5 * p] : [p]));
    const all = axis.tickvals ? axis.tickvals.map((x, i) => [x, axis.ticktext[i]]) : powers.map((x) => [x, short(x)]);
    const inside = ([x]) => Math.log10(x) >= low - 1e-9 && Math.log10(x) <= low + span + 1e-9;
    return { at: (x) => from + ((Math.log10(x) - low) / span) * (to - from), ticks: all.filter(inside) };
  };

  // The ticks of both axes around a plot, and the titles.
  const frame = ({ left, top, right, bottom }, layout, across, down) => {
    let last = -Infinity;
    const columns = (across?.ticks ?? []).map(([x, label]) => {
      const at = across.at(x);
      const half = widest([label]) / 2;
      const shown = at - half > last + 6 ? text(label, Math.min(at, right + 12 - half), bottom + 16, "middle") : "";
      if (shown) last = at + half;
      return line(at, top, at, bottom, "grid") + shown;
    });
    const rows = (down?.ticks ?? []).map(([y, label]) => line(left, down.at(y), right, down.at(y), "grid") + text(label, left - 6, down.at(y) + 4, "end"));
    const title = layout.xaxis?.title ? text(layout.xaxis.title.text, (left + right) / 2, layout.height - 6, "middle") : "";
    const unit = layout.yaxis?.title ? text(layout.yaxis.title.text, 4, 11, "start") : "";
    return `<rect class="plot" x="${left}" y="${top}" width="${right - left}" height="${bottom - top}"/>${columns.join("")}${rows.join("")}${title}${unit}`;
  };
  const named = (names, { left, top, bottom }) => {
    const band = (bottom - top) / names.length;
    return names.map((name, i) => text(name, left - 6, top + (i + 0.5) * band + 4 - ((lines(name).length - 1) * LINE) / 2, "end")).join("");
  };

  const bars = ({ layout }, traces, width) => {
    const names = [...new Set(traces.flatMap((trace) => trace.y))];
    const box = { left: Math.min(width / 2, widest(names) + 12), top: 6, right: width - 14, bottom: layout.height - 26 };
    const stacked = layout.barmode === "stack";
    const ends = new Map();
    const reach = traces.flatMap((trace) => trace.x.map((x, i) => {
      const base = stacked ? ends.get(trace.y[i]) ?? 0 : 0;
      ends.set(trace.y[i], base + x);
      return base + x + (trace.error_x?.array[i] ?? 0);
    }));
    const scale = linear(Math.max(0, ...reach), box.left, box.right);
    const band = (box.bottom - box.top) / names.length;
    const each = (band * 0.8) / (layout.barmode === "group" ? traces.length : 1);
    ends.clear();
    const drawn = traces.flatMap((trace, place) => trace.x.map((x, i) => {
      const base = stacked ? ends.get(trace.y[i]) ?? 0 : 0;
      ends.set(trace.y[i], base + x);
      const y = box.top + names.indexOf(trace.y[i]) * band + band * 0.1 + (layout.barmode === "group" ? place * each : 0);
      const [up, down] = [trace.error_x?.array[i] ?? 0, trace.error_x?.arrayminus[i] ?? 0];
      const range = up || down ? [`${exact(x - down)} – ${exact(x + up)}`] : [];
      const [from, to, middle] = [scale.at(base), scale.at(base + x), y + each / 2];
      const rect = `<rect class="mark" x="${from}" y="${y}" width="${Math.max(0, to - from)}" height="${each}" ${fill(trace.color)} data-tip="${mark(trace.name, trace.y[i].replaceAll("<br>", " "), exact(x), ...range)}"/>`;
      if (!range.length) return rect;
      const [low, high] = [scale.at(x - down), scale.at(x + up)];
      return rect + line(low, middle, high, middle, "error") + line(low, middle - 3, low, middle + 3, "error") + line(high, middle - 3, high, middle + 3, "error");
    }));
    return { svg: frame(box, layout, scale) + named(names, box) + drawn.join(""), points: [] };
  };

  // Lines of a panel; all panels share their axes.
  const curves = ({ layout, data }, traces, width) => {
    const all = data.flatMap((trace) => trace.x.map((x, i) => [x, trace.y[i]]).filter(([, y]) => y !== null));
    if (!all.length) return { svg: "", points: [] };
    const [xs, ys] = [all.map(([x]) => x), all.map(([, y]) => y)];
    const box = { left: 56, top: layout.yaxis?.title ? 26 : 8, right: width - 18, bottom: layout.height - 44 };
    const scale = (values, axis, from, to) => (axis?.type === "log" ? logarithmic(values.filter((v) => v > 0), axis, from, to) : linear(Math.max(...values), from, to));
    const [across, down] = [scale(xs, layout.xaxis, box.left, box.right), scale(ys, layout.yaxis, box.bottom, box.top)];
    const points = [];
    const drawn = traces.map((trace) => {
      const style = `style="--c: var(--${trace.color})"`;
      let pen = "M";
      let path = "";
      let dots = "";
      trace.x.forEach((x, i) => {
        const y = trace.y[i];
        if (y === null || (layout.yaxis?.type === "log" && y <= 0)) { pen = "M"; return; }
        const at = [across.at(x), down.at(y)].map((n) => Math.round(n * 10) / 10);
        points.push({ at, tip: () => plain(mark(trace.name, exact(x), exact(y))) });
        path += `${pen}${at}`;
        pen = "L";
        if (trace.mode !== "lines") dots += `<circle class="mark" cx="${at[0]}" cy="${at[1]}" r="3"/>`;
      });
      return `<g ${style}><path class="mark" d="${path}"/>${dots}</g>`;
    });
    return { svg: frame(box, layout, across, down) + drawn.join(""), points };
  };

  // Cividis (Nuñez, Anderton, Renslow, PLOS ONE 2018), every ninth part of it.
  const cividis = ["00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838"]
    .map((hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  const heat = (share) => {
    const place = Math.min(8, Math.floor(share * 9));
    return `rgb(${cividis[place].map((c, i) => Math.round(c + (cividis[place + 1][i] - c) * (share * 9 - place)))})`;
  };
  const heatmap = ({ layout }, [{ x: columns, y: rows, z }], width) => {
    const box = { left: Math.min(width / 2, widest(rows) + 12), top: 6, right: width - 8, bottom: layout.height - 48 };
    const [wide, high] = [(box.right - box.left) / columns.length, (box.bottom - box.top) / rows.length];
    const names = columns.map((label) => label.replaceAll("<br>", " "));
    const values = z.flat().filter((value) => value !== null);
    const [low, span] = [Math.min(...values), Math.max(...values) - Math.min(...values) || 1];
    // Names that are wider than their columns stand upright, below a chart that grows by them.
    const upright = widest(columns) > wide - 4;
    const height = layout.height + (upright ? Math.max(0, widest(names) - 24) : 0);
    const below = columns.map((label, i) => {
      const [x, y] = [box.left + (i + 0.5) * wide, box.bottom + (upright ? 8 : 14)];
      return upright ? text(names[i], x + 4, y, "end", `transform="rotate(-90 ${x + 4} ${y})"`) : text(label, x, y, "middle");
    });
    const drawn = z.flatMap((line, row) => line.map((value, column) => {
      if (value === null) return "";
      const [x, y, share] = [box.left + column * wide + 1, box.top + row * high + 1, (value - low) / span];
      const tip = `data-tip="${mark(rows[row], names[column], exact(value))}"`;
      return `<rect class="mark" x="${x}" y="${y}" width="${wide - 2}" height="${high - 2}" fill="${heat(share)}" ${tip}/>`
        + text(short(value), x + wide / 2 - 1, y + high / 2 + 3, "middle", `style="fill: ${share > 0.5 ? "#000" : "#fff"}; pointer-events: none"`);
    }));
    return { svg: frame(box, { ...layout, height }) + named(rows, box) + below.join("") + drawn.join(""), points: [], height };
  };

  const near = new WeakMap();
  const drawn = new Set();
  const PANEL = 300;
  const draw = (figure) => {
    const element = document.getElementById(figure.id);
    const kinds = { bar: bars, scatter: curves, heatmap };
    const { data, layout } = figure;
    const whole = Math.max(element.clientWidth, 200);
    const names = [...new Set(data.map((trace) => trace.panel ?? ""))];
    const width = names.length > 1 ? Math.floor(whole / Math.max(1, Math.floor(whole / PANEL))) - 8 : whole;
    const colors = new Map(data.map(({ name, color }) => [name, color]));
    const key = ([name, color]) => `<span><svg width="12" height="12"><rect width="12" height="12" ${fill(color)}/></svg>${name}</span>`;
    const panels = names.map((name) => {
      const { svg, points, height } = kinds[data[0].type](figure, data.filter((trace) => (trace.panel ?? "") === name), width);
      return { points, html: `<div><h4>${name}</h4><svg class="drawing" width="${width}" height="${height ?? layout.height}">${svg}</svg></div>` };
    });
    element.innerHTML = (layout.showlegend ? `<div class="legend">${[...colors].map(key).join("")}</div>` : "") + `<div class="multiples">${panels.map(({ html }) => html).join("")}</div>`;
    element.querySelectorAll(".multiples > div").forEach((panel, i) => near.set(panel, panels[i].points));
    drawn.add(figure);
    document.documentElement.dataset.drawn = drawn.size;
  };

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  document.addEventListener("pointermove", ({ target, clientX, clientY }) => {
    const svg = target.closest?.("svg.drawing");
    let label = target.dataset?.tip;
    if (svg && !label) {
      const { left, top } = svg.getBoundingClientRect();
      const distance = ({ at }) => Math.hypot(at[0] - clientX + left, at[1] - clientY + top);
      const closest = (near.get(svg.parentElement) ?? []).reduce((best, point) => (!best || distance(point) < distance(best) ? point : best), null);
      if (closest && distance(closest) < 25) label = closest.tip();
    }
    tip.textContent = label ?? "";
    tip.hidden = !label;
    const x = Math.max(4, Math.min(clientX + 12, innerWidth - tip.offsetWidth - 4));
    tip.style.transform = `translate(${x}px, ${clientY + 16}px)`;
  });

  // Charts are drawn when they come near the screen, because a study may have hundreds, and again when their width changes.
  const byElement = new Map(figures.map((figure) => [document.getElementById(figure.id), figure]));
  const coming = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
      coming.unobserve(target);
      draw(byElement.get(target));
    }
  }, { rootMargin: "400px" });
  for (const [element, figure] of byElement) {
    element.style.minHeight = `${figure.layout.height}px`;
    coming.observe(element);
  }
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) drawn.forEach(draw);
    width = innerWidth;
  });
  document.documentElement.dataset.charts = figures.length;
})();
