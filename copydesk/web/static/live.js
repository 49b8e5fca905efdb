// Keeps job pages up to date. The server renders them: changed parts are replaced from a newly loaded page.
const shown = new Map();
for (const part of document.querySelectorAll("[data-part]")) {
  if (!part.querySelector("time")) shown.set(part.id, part.innerHTML); // the script has already rewritten times
}

let loading = Promise.resolve();
function refresh(here, without = []) {
  loading = loading.then(() => load(here, without)).catch(console.warn); // one at a time, so that an older page never replaces a newer one
  return loading;
}

async function load(here, without) {
  const answer = await fetch(here, { headers: { Accept: "text/html" } });
  if (!answer.ok || answer.redirected) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-part]")) {
    const next = page.getElementById(part.id);
    if (!next || without.includes(part.id) || shown.get(part.id) === next.innerHTML) continue;
    if (part.querySelector("textarea")) continue; // a person writes a comment here
    shown.set(part.id, next.innerHTML);
    replace(part, next);
  }
}

// Keeps opened details open and the keyboard focus in place.
function replace(part, next) {
  const open = [...part.querySelectorAll("details")].map((each) => each.open);
  const reachable = (root) => [...root.querySelectorAll("a, button, summary")];
  const at = reachable(part).indexOf(document.activeElement);
  part.replaceChildren(...next.childNodes);
  const details = [...part.querySelectorAll("details")];
  if (details.length === open.length) details.forEach((each, n) => { each.open = open[n]; });
  if (at >= 0) reachable(part)[at]?.focus();
  part.dispatchEvent(new CustomEvent("fresh", { bubbles: true }));
}

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.textContent = text;
  return made;
}

function addStep(at, said) {
  const steps = [...document.querySelectorAll("#talk .steps")].pop();
  if (!steps || said.seq <= Number(steps.lastElementChild?.dataset.seq)) return;
  const seconds = Math.max(0, Math.floor((Date.parse(at) - Number(steps.dataset.start)) / 1000));
  const step = element("li", said.tone, "");
  step.dataset.seq = said.seq;
  const after = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  step.append(element("span", "after", after), " ", element("span", "said", said.text));
  if (said.more.length) {
    const more = element("ul", "", "");
    more.append(...said.more.map((line) => element("li", "", line)));
    step.append(more);
  }
  steps.append(step);
}

const job = document.querySelector("[data-events]");
if (job) {
  const stream = new EventSource(job.dataset.events);
  let due = null, before = Promise.resolve();
  const hear = async ({ type, data }) => {
    const { at, said } = JSON.parse(data);
    if (type === "finished") {
      stream.close();
      clearTimeout(due);
      await refresh(job.dataset.here);
    } else if (type === "message" || type === "data") {
      await refresh(job.dataset.here);
    } else {
      addStep(at, said);
      due ??= setTimeout(() => { due = null; refresh(job.dataset.here, ["talk"]); }, 700);
    }
  };
  const hearInTurn = (event) => { before = before.then(() => hear(event)); };
  for (const kind of job.dataset.kinds.split(" ")) stream.addEventListener(kind, hearInTurn);
}

const list = document.querySelector("[data-live]");
if (list) {
  let version = list.dataset.version;
  const look = async () => {
    let wait = list.querySelector(".state.active") ? 2000 : 8000;
    if (!document.hidden) {
      try {
        const answer = await fetch(list.dataset.live, { headers: { Accept: "application/json" } });
        if (answer.status === 401 || answer.status === 404) return;
        const now = answer.ok ? (await answer.json()).version : version;
        if (now !== version) {
          await refresh(list.dataset.here);
          version = now;
        }
      } catch {
        wait = 15000;
      }
    }
    setTimeout(look, wait);
  };
  setTimeout(look, 2000);
}

// Disables the button after the first click. Returning to the page enables it again.
const buttonsOf = (form) => form.querySelectorAll("button");
addEventListener("submit", ({ target }) => {
  if (target.method === "post") setTimeout(() => buttonsOf(target).forEach((button) => { button.disabled = true; }));
});
addEventListener("pageshow", () => buttonsOf(document).forEach((button) => { button.disabled = false; }));
