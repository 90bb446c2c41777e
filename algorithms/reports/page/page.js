"use strict";
/* Zoom, smoothing, and a switch for each run; without it the page shows everything. */
(() => {
  const LEFT = 66, RIGHT = 546, BOTTOM = 268, WIDTH = 560;
  const tools = document.querySelector(".tools");
  const [smoothing, from, to, all] = ["smoothing", "from", "to", "all"].map((id) => document.getElementById(id));
  const charts = [...document.querySelectorAll("svg[data-x]")].map((svg) => ({
    svg, reach: svg.dataset.x.split(" ").map(Number), ticks: [...svg.querySelectorAll(".over")],
    drawn: [...svg.querySelectorAll("polyline, polygon, circle")].map((shape) => {
      const points = shape.points && [...shape.points].map((point) => [point.x, point.y]);
      return { shape, points: points || [[Number(shape.getAttribute("cx")), 0]] };
    }),
  }));
  if (!charts.length) return;
  tools.hidden = false;

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
    for (const { svg, reach, ticks, drawn } of charts) {
      let low = from.value === "" ? reach[0] : Number(from.value), high = to.value === "" ? reach[1] : Number(to.value);
      if (!(high > low)) [low, high] = reach;
      const scale = (RIGHT - LEFT) / (high - low), pixel = (reach[1] - reach[0]) / (RIGHT - LEFT);
      const moved = (x) => LEFT + (reach[0] + (x - LEFT) * pixel - low) * scale;
      for (const { shape, points } of drawn) {
        const smoothed = weight && shape.tagName === "polyline" ? smooth(points, weight) : points;
        const written = smoothed.map(([x, y]) => `${moved(x).toFixed(1)},${y.toFixed(1)}`);
        if (shape.points) shape.setAttribute("points", written.join(" "));
        else shape.setAttribute("cx", moved(points[0][0]).toFixed(1));
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
  for (const input of [smoothing, from, to]) input.addEventListener("input", redraw);
  all.addEventListener("click", () => show("", ""));

  for (const { svg, reach } of charts) {
    let start = null, area = null;
    const at = (event) => {
      const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * WIDTH;
      return Math.min(RIGHT, Math.max(LEFT, x));
    };
    svg.addEventListener("pointerdown", (event) => { if (event.button === 0) { start = at(event); svg.setPointerCapture(event.pointerId); } });
    svg.addEventListener("pointermove", (event) => {
      if (start === null) return;
      if (!area) svg.append(area = element(svg, "rect", { class: "selected", y: 40, height: BOTTOM - 40 }));
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
      show(...ends.map((x) => Math.round(low + (x - LEFT) / (RIGHT - LEFT) * (high - low))));
    };
    svg.addEventListener("pointerup", end);
    svg.addEventListener("pointercancel", end);
    svg.addEventListener("dblclick", () => show("", ""));
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
