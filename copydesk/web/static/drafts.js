// Keeps what a person types until the server has it: over an ended session, an error, or the save of another form.
// It is stored in this tab only. Another person who signs in, and a sign-out, delete it. Passwords and secrets are never stored.
const PREFIX = "copydesk-draft:";
const SENT = "copydesk-sent";
const person = document.body.dataset.person;
const UNSTORED = new Set(["hidden", "password", "file", "submit", "button", "reset", "image"]);

function storage(action) {
  try { return action(sessionStorage); } catch { return null; } // blocked, or full
}

function listKeys() {
  return storage((store) => Object.keys(store).filter((key) => key.startsWith(PREFIX))) ?? [];
}

function listForms() {
  return [...document.querySelectorAll('form[method="post"]')].filter((form) => !("noDraft" in form.dataset));
}

function keyOf(form) {
  const action = form.getAttribute("action");
  const same = listForms().filter((each) => each.getAttribute("action") === action);
  return `${PREFIX}${action} ${same.indexOf(form)}`;
}

function listFields(form) {
  const counts = {};
  return [...form.elements]
    .filter((field) => field.name && !UNSTORED.has(field.type) && field.tagName !== "FIELDSET" && !("noDraft" in field.dataset))
    .map((field) => {
      counts[field.name] = (counts[field.name] ?? 0) + 1;
      return [`${field.name} ${counts[field.name]}`, field];
    });
}

function initialValue(field) {
  if (field.type === "checkbox" || field.type === "radio") return field.defaultChecked;
  if (field.tagName !== "SELECT") return field.defaultValue;
  return ([...field.options].find((option) => option.defaultSelected) ?? field.options[0])?.value;
}

function valueOf(field) {
  return field.type === "checkbox" || field.type === "radio" ? field.checked : field.value;
}

function save(form) {
  const changed = listFields(form).filter(([, field]) => valueOf(field) !== initialValue(field));
  const fields = Object.fromEntries(changed.map(([name, field]) => [name, valueOf(field)]));
  const key = keyOf(form);
  if (changed.length) storage((store) => store.setItem(key, JSON.stringify({ person, fields })));
  else storage((store) => store.removeItem(key));
}

function restore(form) {
  const key = keyOf(form);
  const draft = JSON.parse(storage((store) => store.getItem(key)) ?? "null");
  if (!draft) return;
  let restored = 0;
  for (const [name, field] of listFields(form)) {
    if (!(name in draft.fields) || valueOf(field) === draft.fields[name]) continue;
    if (typeof draft.fields[name] === "boolean") field.checked = draft.fields[name];
    else field.value = draft.fields[name];
    field.closest("details")?.setAttribute("open", "");
    restored += 1;
  }
  if (restored) showNotice(form, key);
}

function showNotice(form, key) {
  const notice = document.createElement("p");
  notice.className = "notice draft";
  notice.setAttribute("role", "status");
  notice.append("Restored what you typed here. It is not saved yet. ");
  const discard = document.createElement("button");
  discard.type = "button";
  discard.textContent = "Discard";
  discard.addEventListener("click", () => {
    storage((store) => store.removeItem(key));
    form.reset();
    form.dispatchEvent(new CustomEvent("discarded", { bubbles: true }));
    notice.remove();
  });
  notice.append(discard);
  form.prepend(notice);
}

// A form was sent before this page. The server has it unless this page shows an error or asks for a sign-in.
const sent = storage((store) => store.getItem(SENT));
storage((store) => store.removeItem(SENT));
const failed = !person || document.querySelector('.notice.bad[role="alert"], .fault') !== null;
if (sent && !failed && performance.getEntriesByType("navigation")[0]?.type !== "back_forward") {
  storage((store) => store.removeItem(sent));
}
if (person) {
  for (const key of listKeys()) {
    if (JSON.parse(storage((store) => store.getItem(key)) ?? "{}").person !== person) storage((store) => store.removeItem(key));
  }
  listForms().forEach(restore);
  for (const kind of ["input", "change"]) {
    document.addEventListener(kind, ({ target }) => {
      if (target.form?.method === "post" && !("noDraft" in target.form.dataset)) save(target.form);
    });
  }
  document.addEventListener("submit", ({ target }) => {
    if (target.getAttribute("action") === "/sign-out") listKeys().forEach((key) => storage((store) => store.removeItem(key)));
    else if (target.method === "post") storage((store) => store.setItem(SENT, keyOf(target)));
  });
}
