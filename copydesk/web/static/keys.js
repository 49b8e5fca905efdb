// A second click would show an error instead of the key that the first click created.
for (const form of document.querySelectorAll("form[data-once]")) {
  const button = form.querySelector("button");
  form.addEventListener("submit", () => { button.disabled = true; });
  addEventListener("pageshow", () => { button.disabled = false; });
}
