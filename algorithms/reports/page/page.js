"use strict";
/* Zoom, smoothing, a log scale, what the curves are drawn over, pictures, and a switch for each run; without it the page shows everything. */
(() => {
  const LEFT = 66, RIGHT = 546, TOP = 40, BOTTOM = 268, WIDTH = 560, HEIGHT = 320;
  const [smoothing, over, from, to, all, log] = ["smoothing", "over", "from", "to", "all", "log"].map((id) => document.getElementById(id));
  const number = (shape, name) => Number(shape.getAttribute(name));
  /* 1, 2 and 5 times powers of ten, from the last at or below `low` to the first at or above `high`. */
  const rounded = (low, high) => {
    const [first, last] = [low, high].map((value) => Math.floor(Math.log10(value)));
    const found = Array.from({ length: last - first + 2 }, (_, i) => [1, 2, 5].map((k) => k * 10 ** (first + i))).flat();
    return found.slice(found.findLastIndex((mark) => mark <= low * 1.001), found.findIndex((mark) => mark >= high * 0.999) + 1);
  };
  const charts = [...document.querySelectorAll("svg[data-x]")].map((svg) => {
    const drawn = [...svg.querySelectorAll("polyline, polygon, circle")].map((shape) => {
      const points = shape.points && [...shape.points].map((point) => [point.x, point.y]);
      return { shape, points: points || [[number(shape, "cx"), number(shape, "cy")]] };
    });
    const [low, high] = svg.dataset.y.split(" ").map(Number), value = (y) => low + (BOTTOM - y) / (BOTTOM - TOP) * (high - low);
    const values = drawn.flatMap(({ points }) => points.map(([, y]) => value(y))), lowest = Math.min(...values);
    return {
      svg, drawn, value, reach: svg.dataset.x.split(" ").map(Number), marks: lowest > 0 ? rounded(lowest, Math.max(...values)) : [],
      ticks: [...svg.querySelectorAll(".over")], heights: [...svg.querySelectorAll(".up")], label: svg.querySelector(".label"),
    };
  });
  document.querySelector(".tools").hidden = !charts.length;

  const element = (svg, name, attributes, text) => {
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text || "";
    return made;
  };
  const steps = (low, high) => {
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((each) => each >= rough * 0.999);
    return Array.from({ length: 12 }, (_, i) => (Math.ceil(low / step - 1e-9) + i) * step).filter((x) => x <= high * (1 + 1e-9));
  };
  /* An exponential moving average, without its pull towards the first value. */
  const smooth = (points, weight) => {
    let sum = 0, mass = 0;
    return points.map(([x, y]) => {
      sum = weight * sum + (1 - weight) * y;
      mass = weight * mass + (1 - weight);
      return [x, sum / mass];
    });
  };

  const redraw = () => {
    const weight = Number(smoothing.value);
    for (const { svg, reach, ticks, drawn, value, marks, heights, label } of charts) {
      let low = from.value === "" ? reach[0] : Number(from.value), high = to.value === "" ? reach[1] : Number(to.value);
      if (!(high > low)) [low, high] = reach;
      const scale = (RIGHT - LEFT) / (high - low), pixel = (reach[1] - reach[0]) / (RIGHT - LEFT);
      const moved = (x) => LEFT + (reach[0] + (x - LEFT) * pixel - low) * scale;
      const logged = log.checked && marks.length > 1; /* a value of 0 or below keeps its scale */
      const raised = (of) => BOTTOM - Math.log(of / marks[0]) / Math.log(marks.at(-1) / marks[0]) * (BOTTOM - TOP);
      for (const { shape, points } of drawn) {
        const smoothed = weight && shape.tagName === "polyline" ? smooth(points, weight) : points;
        const written = smoothed.map(([x, y]) => [moved(x).toFixed(1), (logged ? raised(value(y)) : y).toFixed(1)]);
        if (shape.points) shape.setAttribute("points", written.join(" "));
        else [["cx", 0], ["cy", 1]].forEach(([name, axis]) => shape.setAttribute(name, written[0][axis]));
      }
      label.textContent = label.textContent.replace(/, log scale$/, "") + (logged ? ", log scale" : "");
      svg.querySelectorAll(".up").forEach((tick) => tick.remove());
      if (!logged) svg.prepend(...heights);
      else for (const mark of marks.length > 9 ? marks.filter((each) => each.toExponential(0).startsWith("1")) : marks) {
        const y = raised(mark), text = mark < 1e-4 ? mark.toExponential(0) : mark.toLocaleString("en", { maximumSignificantDigits: 1 });
        svg.prepend(
          element(svg, "line", { class: "grid up", x1: LEFT, x2: RIGHT, y1: y, y2: y }),
          element(svg, "text", { class: "up", x: LEFT - 8, y: y + 4.5, "text-anchor": "end" }, text),
        );
      }
      svg.querySelectorAll(".over").forEach((tick) => tick.remove());
      if (low === reach[0] && high === reach[1]) svg.prepend(...ticks);
      else for (const value of steps(low, high)) {
        const x = LEFT + (value - low) * scale;
        svg.prepend(
          element(svg, "line", { class: "tick over", x1: x, x2: x, y1: BOTTOM, y2: BOTTOM + 5 }),
          element(svg, "text", { class: "over", x, y: BOTTOM + 22, "text-anchor": x > RIGHT - 12 ? "end" : "middle" }, value.toLocaleString("en")),
        );
      }
    }
  };
  const show = (low, high) => { [from.value, to.value] = [low, high]; redraw(); };
  for (const input of [smoothing, from, to, log]) input.addEventListener("input", redraw);
  all.addEventListener("click", () => show("", ""));
  over.addEventListener("change", () => {
    for (const figure of document.querySelectorAll("[data-over]")) figure.hidden = figure.dataset.over !== over.value;
    show("", ""); /* an interval of moves is none of seconds */
  });

  for (const { svg, reach } of charts) {
    let start = null, area = null;
    const at = (event) => {
      const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * WIDTH;
      return Math.min(RIGHT, Math.max(LEFT, x));
    };
    svg.addEventListener("pointerdown", (event) => { if (event.button === 0) { start = at(event); svg.setPointerCapture(event.pointerId); } });
    svg.addEventListener("pointermove", (event) => {
      if (start === null) return;
      if (!area) svg.append(area = element(svg, "rect", { class: "selected", y: TOP, height: BOTTOM - TOP }));
      area.setAttribute("x", Math.min(start, at(event)));
      area.setAttribute("width", Math.abs(at(event) - start));
    });
    const end = (event) => {
      if (start === null) return;
      const ends = [start, at(event)].sort((a, b) => a - b);
      start = null;
      if (area) area.remove();
      area = null;
      if (event.type === "pointercancel" || ends[1] - ends[0] < 8) return;
      const low = from.value === "" ? reach[0] : Number(from.value), high = to.value === "" ? reach[1] : Number(to.value);
      const digits = high - low < 50 ? 2 : 0; /* a short run has few updates and seconds */
      show(...ends.map((x) => Number((low + (x - LEFT) / (RIGHT - LEFT) * (high - low)).toFixed(digits))));
    };
    svg.addEventListener("pointerup", end);
    svg.addEventListener("pointercancel", end);
    svg.addEventListener("dblclick", () => show("", ""));
  }

  const sides = { start: "left", middle: "center", end: "right" };
  const outline = (shape) => {
    const at = (...names) => names.map((name) => number(shape, name)), path = new Path2D();
    if (shape.tagName === "circle") path.arc(...at("cx", "cy", "r"), 0, 2 * Math.PI);
    else path.addPath(new Path2D(`M${shape.getAttribute("points") || at("x1", "y1", "x2", "y2")}${shape.tagName === "polygon" ? "Z" : ""}`));
    return path;
  };
  /* An SVG's shapes in the colours that they are shown in: as an image the page's own policy would refuse it. */
  const paint = (pen, svg) => {
    for (const shape of svg.querySelectorAll("line, polyline, polygon, circle, text")) {
      const style = getComputedStyle(shape);
      if (style.display === "none") continue;
      pen.save();
      if (shape.closest(".plot")) pen.clip(new Path2D(`M${LEFT - 8} 0H${RIGHT + 8}V${HEIGHT}H${LEFT - 8}Z`));
      Object.assign(pen, { globalAlpha: style.opacity, fillStyle: style.fill, lineWidth: parseFloat(style.strokeWidth), lineCap: style.strokeLinecap,
        lineJoin: style.strokeLinejoin, textAlign: sides[style.textAnchor], font: `${style.fontSize} ${style.fontFamily}` });
      if (style.strokeDasharray !== "none") pen.setLineDash(style.strokeDasharray.split(",").map(parseFloat));
      if (shape.tagName === "text") pen.fillText(shape.textContent, number(shape, "x"), number(shape, "y"));
      else if (style.fill !== "none") pen.fill(outline(shape));
      if (style.stroke !== "none") { pen.strokeStyle = style.stroke; pen.stroke(outline(shape)); }
      pen.restore();
    }
  };
  for (const figure of document.querySelectorAll("figure:has(.chart)")) {
    const svg = figure.querySelector(".chart"), head = figure.querySelector("figcaption > :first-child");
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: "PNG", ariaLabel: `PNG of ${head.textContent}` });
    figure.querySelector("figcaption span").append(" ", button);
    button.addEventListener("click", () => {
      const canvas = document.createElement("canvas"), pen = canvas.getContext("2d"), style = getComputedStyle(figure);
      const names = [...figure.querySelectorAll(".legend li")].filter((item) => !item.querySelector("input:not(:checked)"));
      [canvas.width, canvas.height] = [2 * WIDTH + 40, 2 * (HEIGHT + 40 + 22 * names.length) + 40];
      pen.fillStyle = style.backgroundColor;
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.setTransform(2, 0, 0, 2, 20, 20);
      const write = (text, x, y, weight) => {
        [pen.fillStyle, pen.font] = [style.color, `${weight} 14px ${style.fontFamily}`];
        pen.fillText(text, x, y, WIDTH - x);
      };
      write(head.textContent, 4, 18, 600);
      pen.translate(0, 30);
      paint(pen, svg);
      pen.translate(LEFT, HEIGHT);
      for (const item of names) {
        pen.translate(0, 22);
        pen.save();
        pen.translate(0, -11);
        paint(pen, item.querySelector("svg"));
        pen.restore();
        write(item.textContent, 32, 0, 400);
      }
      Object.assign(document.createElement("a"), { download: `${head.textContent}.png`, href: canvas.toDataURL() }).click();
    });
  }

  for (const item of document.querySelectorAll(".legend li[data-run]")) {
    const scope = item.closest(".group") || document, run = item.dataset.run;
    const label = document.createElement("label"), box = document.createElement("input");
    box.type = "checkbox";
    box.checked = true;
    label.append(box, ...item.childNodes);
    item.append(label);
    box.addEventListener("change", () => {
      scope.querySelectorAll(`.chart .${run}`).forEach((shape) => shape.classList.toggle("off", !box.checked));
      scope.querySelectorAll(`.legend li[data-run="${run}"] input`).forEach((other) => { other.checked = box.checked; });
    });
  }
})();
