// Comments on lines of a diff: a click on a line's number opens a text area below it. All are sent with the follow-up.
const followUp = document.getElementById("follow-up");
const collected = followUp?.elements.namedItem("lines");

function describe({ path, side, line }) {
  return `${side === "old" ? "removed line" : "line"} ${line} of ${path}`;
}

function rowsOf(table) {
  return [...table.tBodies[0].rows].filter((row) => !row.classList.contains("comment"));
}

// In a unified diff, a row is a line. Side by side, a row has the old line on its left and the new one on its right.
function placesOf(row) {
  const path = row.closest("[data-path]").dataset.path;
  const place = (side, number, text) => ({ cell: number, path, side, line: Number(number.textContent), quote: text.textContent });
  const [first, second, third, fourth, , sixth] = row.cells;
  if (row.closest("table").classList.contains("split")) {
    return [place("old", first, third), place("new", fourth, sixth)].filter(({ line }) => line);
  }
  return [row.classList.contains("removed") ? place("old", first, fourth) : place("new", second, fourth)].filter(({ line }) => line);
}

function collect() {
  const comments = [...document.querySelectorAll("tr.comment textarea")].map((area) => ({ ...area.place, text: area.value }));
  collected.value = comments.length ? JSON.stringify(comments) : "";
  collected.dispatchEvent(new Event("input", { bubbles: true })); // keeps it as a draft
  const count = document.getElementById("line-count");
  const written = comments.filter(({ text }) => text.trim()).length;
  count.hidden = !written;
  count.textContent = `${written} comment${written === 1 ? "" : "s"} on lines will be sent with this message.`;
}

function element(tag, values, ...children) {
  const made = Object.assign(document.createElement(tag), values);
  made.append(...children);
  return made;
}

function openComment(row, { path, side, line, quote }, text = "") {
  const existing = [...document.querySelectorAll("tr.comment textarea")]
    .find(({ place }) => place.path === path && place.side === side && place.line === line);
  if (existing) return existing;
  const area = element("textarea", { value: text, maxLength: 8000, dir: "auto" });
  area.place = { path, side, line, quote };
  area.setAttribute("form", "follow-up");
  area.setAttribute("aria-label", `Comment on ${describe(area.place)}`);
  area.addEventListener("input", (event) => { event.stopPropagation(); collect(); });
  const remove = element("button", { type: "button", textContent: "Remove" });
  const send = element("a", { href: "#follow-up", textContent: "Send with the follow-up" });
  const cell = element("td", { colSpan: row.cells.length }, area, element("div", { className: "row" }, send, remove));
  const added = element("tr", { className: "comment" }, cell);
  remove.addEventListener("click", () => { added.remove(); collect(); row.querySelector("button.comment")?.focus(); });
  let after = row;
  while (after.nextElementSibling?.classList.contains("comment")) after = after.nextElementSibling;
  after.after(added);
  return area;
}

// Changed lines are reached with the Tab key; unchanged ones with the pointer, and by the fields of the form.
function addButtons() {
  for (const table of document.querySelectorAll("#changes table.diff")) {
    for (const row of rowsOf(table)) {
      for (const place of placesOf(row)) {
        const { cell } = place;
        const isChanged = row.matches(".added, .removed") || cell.matches(".added, .removed");
        const button = element("button", { type: "button", className: "comment", textContent: cell.textContent, tabIndex: isChanged ? 0 : -1 });
        button.setAttribute("aria-label", `Comment on ${describe(place)}`);
        button.addEventListener("click", () => { openComment(row, place).focus(); collect(); });
        cell.replaceChildren(button);
      }
    }
  }
}

function reopenComments() {
  let comments = [];
  try { comments = JSON.parse(collected.value || "[]"); } catch { /* not ours */ }
  if (!Array.isArray(comments)) return;
  for (const comment of comments) {
    for (const table of document.querySelectorAll("#changes table.diff")) {
      if (table.closest("[data-path]").dataset.path !== comment.path) continue;
      const row = rowsOf(table).find((each) => placesOf(each).some(({ side, line }) => side === comment.side && line === comment.line));
      if (!row) continue;
      row.closest("details.gap")?.setAttribute("open", "");
      openComment(row, comment, String(comment.text));
      break;
    }
  }
  if (comments.length) collect();
}

if (collected) {
  addButtons();
  reopenComments();
  document.addEventListener("fresh", ({ target }) => { if (target.id === "changes") addButtons(); });
  followUp.addEventListener("discarded", () => {
    document.querySelectorAll("tr.comment").forEach((row) => row.remove());
    collect();
  });
}
