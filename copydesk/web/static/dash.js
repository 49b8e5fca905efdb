// Adds to every page of the dashboard: times in the reader's time zone, copy buttons, and Ctrl+Enter in text areas.
function showLocalTimes(part) {
  for (const time of part.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (isNaN(moment)) continue;
    time.title = time.dateTime;
    time.textContent = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }
}
showLocalTimes(document);
document.addEventListener("fresh", (event) => showLocalTimes(event.target));

// The clipboard API needs TLS or localhost. Elsewhere, use the old copy command.
async function copied(source) {
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(source.value ?? source.textContent).then(() => true, () => false);
  }
  if (source.select) source.select();
  else getSelection().selectAllChildren(source);
  return document.execCommand("copy");
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  const label = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.textContent = (await copied(document.getElementById(button.dataset.copy))) ? "Copied" : "Copy it manually";
    setTimeout(() => { button.textContent = label; }, 1500);
  });
}

// Ctrl+Enter, or Command+Enter on a Mac, sends the form of a text area. Input methods use Enter to choose a word.
document.addEventListener("keydown", (event) => {
  const { target } = event;
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
  if (target.tagName !== "TEXTAREA" || !target.form) return;
  event.preventDefault();
  const button = [...target.form.elements].find((each) => each.type === "submit" && !each.disabled);
  if (button) target.form.requestSubmit(button);
});
