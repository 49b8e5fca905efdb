// Keeps the start page of a project up to date: marks steps as done, and moves on after the first view.
const waiting = document.getElementById("waiting");
const news = document.getElementById("news");
const EVERY = 3000;

function show(steps) {
  for (const [name, done] of Object.entries(steps)) {
    const step = document.querySelector(`[data-step="${name}"]`);
    if (!step || step.classList.contains("done") === done) continue;
    step.classList.toggle("done", done);
    const state = step.querySelector(".state");
    state.className = `state ${done ? "good" : "quiet"}`;
    state.textContent = done ? "done" : "to do";
    news.textContent = `${step.querySelector("h2").textContent}: ${state.textContent}`;
  }
}

// Replaces the list of requests that were not counted when there are new ones.
async function showUncounted(requests) {
  const list = document.getElementById("uncounted");
  if (Number(list.dataset.requests) === requests) return;
  const answer = await fetch(location.href);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("uncounted");
  if (!fresh) return;
  list.replaceWith(fresh);
  news.textContent = fresh.querySelector("h2").textContent;
}

async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch(waiting.dataset.state, { headers: { Accept: "application/json" } });
      if (answer.status === 401 || answer.status === 404) return;
      if (answer.ok) {
        const { steps, next, uncounted } = await answer.json();
        show(steps);
        await showUncounted(uncounted);
        if (next && !("seen" in waiting.dataset)) return location.replace(next);
      }
    } catch { /* the service is unavailable: ask again */ }
  }
  setTimeout(look, EVERY);
}

setTimeout(look, EVERY);
