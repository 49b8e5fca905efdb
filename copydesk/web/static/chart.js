// Adds to charts: a tooltip with the values of a point, and arrow keys to move between points.
for (const drawing of document.querySelectorAll(".drawing")) {
  const tip = drawing.querySelector(".tip");
  const points = [...drawing.querySelectorAll(".point")];
  const said = new Map();

  const show = (point) => {
    tip.textContent = said.get(point);
    tip.hidden = false;
    const frame = drawing.getBoundingClientRect(), mark = point.querySelector("line").getBoundingClientRect();
    const beside = mark.left - frame.left + 12;
    const fits = beside + tip.offsetWidth <= frame.width;
    tip.style.left = `${fits ? beside : Math.max(0, beside - 24 - tip.offsetWidth)}px`;
  };
  const focused = () => points.find((point) => point === document.activeElement);
  const leave = () => { const point = focused(); if (point) show(point); else tip.hidden = true; };
  const go = (place) => {
    const next = points[Math.min(Math.max(place, 0), points.length - 1)];
    for (const point of points) point.setAttribute("tabindex", point === next ? "0" : "-1");
    next.focus();
  };

  points.forEach((point, place) => {
    const title = point.querySelector("title");
    said.set(point, title.textContent);
    point.setAttribute("aria-label", title.textContent.replaceAll("\n", ", "));
    title.remove(); // so that the browser's tooltip does not cover ours
    point.addEventListener("pointerenter", () => show(point));
    point.addEventListener("pointerleave", leave);
    point.addEventListener("focus", () => show(point));
    point.addEventListener("blur", () => { tip.hidden = true; });
    point.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: points.length - 1 }[event.key];
      if (event.key === "Escape") tip.hidden = true;
      if (to === undefined) return;
      event.preventDefault();
      go(to);
    });
  });
}
