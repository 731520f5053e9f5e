"use strict"; // what comes from outside: keys, pictures, conditions, light and dark; then the start

const picks = () => [...grid.querySelectorAll(".pick")];

function setTabStop(pick) { // one stop for "tab"; arrows move within
  picks().forEach((other) => other.setAttribute("tabindex", other === pick ? "0" : "-1"));
}

function focusCard(id) {
  const pick = grid.querySelector(`.card[data-id="${id}"] .pick`);
  if (pick) { setTabStop(pick); pick.focus(); }
}

function focusFirst() {
  picks()[0]?.focus({ preventScroll: true });
}

grid.addEventListener("focusin", (event) => {
  const within = event.target.closest(".card")?.querySelector(".pick");
  if (within) setTabStop(within);
});

grid.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const within = event.target.closest(".card"), all = picks();
  const at = all.indexOf(within?.querySelector(".pick"));
  if (at < 0) return;
  const top = all[0].getBoundingClientRect().top;
  const inRow = Math.max(1, all.findIndex((pick) => pick.getBoundingClientRect().top > top + 4));
  const across = all.every((pick) => pick.getBoundingClientRect().top <= top + 4) ? all.length : inRow;
  const moves = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + across, ArrowUp: at - across, Home: 0, End: all.length - 1 };
  if (event.key in moves) {
    event.preventDefault();
    all[moves[event.key]]?.focus();
    return;
  }
  const item = shown?.neighbours[at];
  if (!item) return;
  if (event.key === "w" && index.explains) lookCloser(item.id);
  if (event.key === "y" && index.takes_marks) setMark(item, item.mark === "right" ? null : "right");
  if (event.key === "n" && index.takes_marks) setMark(item, item.mark === "wrong" ? null : "wrong");
});

byId("choose").addEventListener("click", () => byId("file").click());
byId("photograph").addEventListener("click", () => byId("camera").click());
for (const input of [byId("file"), byId("camera")]) {
  input.addEventListener("change", () => { upload(input.files[0]); input.value = ""; });
}

document.addEventListener("paste", (event) => {
  const file = [...event.clipboardData.files].find((one) => one.type.startsWith("image/"));
  if (file) { event.preventDefault(); upload(file); } else if (!event.target.closest?.("input")) tell("There is no picture in the clipboard.", true);
});

const veil = byId("veil");
const holdsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  veil.hidden = !holdsFiles(event);
});
document.addEventListener("dragleave", (event) => { if (event.relatedTarget === null) veil.hidden = true; });
document.addEventListener("drop", (event) => {
  event.preventDefault();
  veil.hidden = true;
  if (event.dataTransfer.files.length) upload(event.dataTransfer.files[0]);
  else tell("Drop the file of a picture: what was dropped is none.", true);
});

function showConditions() {
  const { where } = now();
  if (where.length) byId("filters").open = true;
  byId("conditions").replaceChildren(...where.map((condition) => make("li", {}, make("button", {
    type: "button", title: "Remove this condition", "aria-label": `Remove: ${condition}`,
    on: { click: () => goTo({ where: where.filter((other) => other !== condition), k: STEP }) },
  }, condition, make("span", { "aria-hidden": "true" }, " ✕")))));
}

async function setUpConditions() {
  const { columns } = await ask("api/columns");
  const form = document.querySelector(".condition"), column = byId("column"), value = byId("value");
  byId("filters").hidden = !columns.length;
  column.replaceChildren(...columns.map(({ name }) => make("option", {}, name)));
  const propose = () => {
    const known = columns.find(({ name }) => name === column.value)?.values ?? [];
    byId("values").replaceChildren(...known.map((text) => make("option", { value: text })));
  };
  column.addEventListener("change", propose);
  propose();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const condition = `${column.value}${byId("operator").value}${value.value.trim()}`;
    const { where } = now();
    value.value = "";
    if (!where.includes(condition)) goTo({ where: [...where, condition], k: STEP });
  });
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = byId("theme");
function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  const isDark = (name ?? (dark.matches ? "dark" : "light")) === "dark";
  theme.textContent = isDark ? "Light" : "Dark";
}
theme.addEventListener("click", () => {
  const next = theme.textContent.toLowerCase();
  try { localStorage.setItem("theme", next); } catch { /* a browser that keeps nothing */ }
  setTheme(next);
});
let stored = null;
try { stored = localStorage.getItem("theme"); } catch { /* as above */ }
setTheme(stored);

more.addEventListener("click", async () => {
  const before = picks().length;
  await goTo({ k: Math.min(now().k + STEP, index.most_results) }, { replace: true });
  picks()[before]?.focus();
});
addEventListener("popstate", show);

(async () => {
  try {
    index = await ask("api/index");
    byId("about").textContent = `${index.name}: ${count(index.num_items, "image", "images")}`;
    await Promise.all([setUpConditions(), show()]);
  } catch (fault) {
    tell(fault.message, true);
  }
})();
