// Adds to every page of the dashboard: times in the reader's time zone, and copy buttons.
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
