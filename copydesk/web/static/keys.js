// A second click would answer with "sent before", and the key of the first click would never be seen.
for (const form of document.querySelectorAll("form[data-once]")) {
  const button = form.querySelector("button");
  form.addEventListener("submit", () => { button.disabled = true; });
  addEventListener("pageshow", () => { button.disabled = false; });
}
