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

async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch(waiting.dataset.state, { headers: { Accept: "application/json" } });
      if (answer.status === 401 || answer.status === 404) return;
      if (answer.ok) {
        const { steps, next } = await answer.json();
        show(steps);
        if (next && !("seen" in waiting.dataset)) return location.replace(next);
      }
    } catch { /* the service is unavailable: ask again */ }
  }
  setTimeout(look, EVERY);
}

setTimeout(look, EVERY);
