"use strict"; // searching, and what is seen of the answer; what is looked at stands in the address, so that "back" works
const byId = (name) => document.getElementById(name);
const [status, grid, query, verdict, more] = ["status", "grid", "query", "verdict", "more"].map(byId);
const STEP = 24; // results at once
const uploads = new Map(); // the pictures of this visit, by handle: {file, url}
let index = null; // what is served, and within which limits
let shown = null; // the answer on the page
let asking = new AbortController();

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") Object.entries(value).forEach(([event, listener]) => element.addEventListener(event, listener));
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const count = (number, one, many) => `${number.toLocaleString("en-GB")} ${number === 1 ? one : many}`;
const nameOf = (item) => item.label ?? item.name;
// Names of files and folders have no spaces to break a line at: after a stop, a stroke or a slash they may.
const breakable = (name) => (name.match(/[^_./\\-]+[_./\\-]*|[_./\\-]+/g) ?? []).flatMap((part, place) => (place ? [make("wbr"), part] : [part]));
const altOf = (item) => (item.label === null ? item.name : `${item.label} (${item.name})`);

class Told extends Error { // what the server said, in its words
  constructor(words, code) { super(words); this.code = code; }
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { headers: { Accept: "application/json" }, ...options });
  } catch (fault) {
    if (fault.name === "AbortError") throw fault;
    throw new Told("The server does not answer. Is it still running?", 0);
  }
  const answer = await response.json().catch(() => ({ error: `The server answered ${response.status}.` }));
  options.signal?.throwIfAborted(); // while the answer came, or just after: it is not looked at any more
  if (!response.ok) throw new Told(sentence(answer.error), response.status);
  return answer;
}

const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);
const sentence = (words) => capital(words) + (/[.?!]$/.test(words) ? "" : ".");

function tell(words, isFault = false) {
  status.textContent = words;
  status.classList.toggle("fault", isFault);
}

function stateOf(address) {
  const given = new URL(address).searchParams;
  const number = (name) => (/^\d+$/.test(given.get(name) ?? "") ? Number(given.get(name)) : null);
  return { id: number("id"), picture: given.get("picture"), where: given.getAll("where"), k: number("k") ?? STEP, why: number("why") };
}

function addressOf(state) {
  const given = new URLSearchParams();
  if (state.id !== null) given.set("id", state.id);
  if (state.picture !== null) given.set("picture", state.picture);
  state.where.forEach((condition) => given.append("where", condition));
  if (state.k !== STEP) given.set("k", state.k);
  if (state.why !== null) given.set("why", state.why);
  const written = given.toString();
  return written ? `?${written}` : location.pathname;
}

const now = () => stateOf(location.href);
const isAsked = (state) => state.id !== null || state.picture !== null;

function goTo(change, { replace = false } = {}) {
  const from = document.activeElement?.closest?.(".card")?.dataset.id ?? null;
  history.replaceState({ ...history.state, from }, "");
  history[replace ? "replaceState" : "pushState"]({}, "", addressOf({ ...now(), why: null, ...change }));
  return show();
}

async function show() {
  const state = now();
  closeWhy();
  asking.abort(); // whatever is still being asked for is not looked at any more
  if (!isAsked(state)) return showStart();
  if (shown?.key === keyOf(state)) tell(shown.says);
  else {
    try {
      render(await search(state), state);
    } catch (fault) {
      return failed(fault, state);
    }
  }
  if (state.why !== null) openWhy(state.why);
}

const keyOf = (state) => JSON.stringify([state.id, state.picture, state.where, state.k]);

function search(state, file = null) {
  asking.abort();
  const asked = (asking = new AbortController());
  document.body.classList.add("busy");
  tell("Searching …");
  const given = new URLSearchParams({ k: state.k });
  state.where.forEach((condition) => given.append("where", condition));
  const options = { method: "POST", signal: asking.signal };
  if (file) {
    options.body = new FormData();
    options.body.append("image", file, "picture");
  } else if (state.id !== null) given.set("id", state.id);
  else given.set("picture", state.picture);
  return ask(`api/search?${given}`, options).finally(() => { if (asked === asking) document.body.classList.remove("busy"); });
}

async function failed(fault, state) {
  if (fault.name === "AbortError") return;
  const kept = uploads.get(state.picture);
  if (fault.code === 410 && kept) { // the server has forgotten the picture, this page has not
    try {
      return render(await search(state, kept.file), state);
    } catch (again) { fault = again; }
  }
  shown = null;
  grid.replaceChildren();
  more.hidden = true;
  verdict.hidden = true;
  if (fault.code === 410) showQuery(null);
  tell(fault.message, true);
}

async function upload(file) {
  if (!file) return;
  if (!file.type.startsWith("image/")) return tell(`${file.name || "That"} is not a picture.`, true);
  if (index && file.size > index.upload_bytes) {
    return tell(`The picture has ${(file.size / 1e6).toFixed(1)} MB, more than the ${index.upload_bytes / 1e6} MB that are taken. Send a smaller one.`, true);
  }
  const state = { ...now(), id: null, k: STEP, why: null };
  const url = URL.createObjectURL(file);
  showQuery({ url, caption: "" });
  try {
    const answer = await search(state, file);
    state.picture = answer.query.picture;
    uploads.set(state.picture, { file, url });
    history.pushState({}, "", addressOf(state));
    render(answer, state);
  } catch (fault) {
    if (fault.name === "AbortError") return;
    shown = null;
    grid.replaceChildren();
    more.hidden = true;
    verdict.hidden = true;
    tell(fault.message, true);
  }
}

function render(answer, state) {
  shown = { ...answer, key: keyOf(state) };
  const item = answer.query.item;
  const kept = uploads.get(answer.query.picture);
  showQuery({ url: item === null && kept ? kept.url : `${answer.query.image}?size=full`, caption: item === null ? "Your picture" : nameOf(item) });
  verdict.hidden = false;
  verdict.textContent = sentence(answer.verdict.words);
  grid.classList.toggle("strange", answer.verdict.is_known === false); // then nothing is said with confidence
  verdict.className = answer.verdict.is_known === null ? "untold" : answer.verdict.is_known ? "known" : "unknown";
  const found = answer.neighbours;
  const what = item === null ? "your picture" : nameOf(item);
  shown.says = found.length ? `${count(found.length, "image", "images")} most like ${what}` : "No image of the index fulfils the conditions.";
  tell(shown.says);
  grid.replaceChildren(...found.map(card));
  more.hidden = found.length < state.k || state.k >= index.most_results;
  document.querySelector(".keys").hidden = !found.length;
  showConditions();
  byId("keeping").hidden = !index.takes_marks || item !== null || !found.length;
  document.title = `${item === null ? "Your picture" : nameOf(item)} – Likewise`;
  setTabStop(grid.querySelector(".pick"));
  if (document.activeElement === document.body && history.state?.from) focusCard(history.state.from);
}

function showQuery(picture) {
  document.body.classList.toggle("asked", picture !== null);
  byId("choose").textContent = picture === null ? "Choose a picture" : "Another picture";
  query.hidden = picture === null;
  if (picture === null) return;
  const image = query.querySelector("img");
  image.src = picture.url;
  image.alt = picture.caption === "Your picture" || !picture.caption ? "The picture you searched with" : `Searched with: ${picture.caption}`;
  query.querySelector("figcaption").replaceChildren(...breakable(picture.caption));
}

async function showStart() {
  shown = null;
  document.body.classList.remove("busy");
  showQuery(null);
  verdict.hidden = true;
  more.hidden = true;
  byId("keeping").hidden = true;
  document.querySelector(".keys").hidden = true;
  showConditions();
  document.title = "Likewise: search by picture";
  try {
    const given = new URLSearchParams({ limit: 12 });
    now().where.forEach((condition) => given.append("where", condition));
    const some = await ask(`api/items?${given}`);
    if (isAsked(now())) return;
    tell(some.items.length ? "Or start from one of these" : "There are no images here yet.");
    grid.replaceChildren(...some.items.map(card));
    setTabStop(grid.querySelector(".pick"));
  } catch (fault) {
    tell(fault.message, true);
  }
}

function pictureOf(item) {
  const image = make("img", { src: `${item.image}?size=thumb`, alt: altOf(item), loading: "lazy", decoding: "async", draggable: "false" });
  image.addEventListener("error", async () => {
    const words = await ask(item.image).then(() => "", (fault) => fault.message);
    image.replaceWith(make("span", { class: "missing" }, words || "This image cannot be shown."));
  });
  return image;
}

function card(item) {
  const isResult = "similarity" in item;
  const says = isResult ? `${item.words ?? "similarity"} ${item.similarity.toFixed(2)}` : "";
  const pick = make("button", {
    type: "button", class: "pick", tabindex: "-1", title: "Search from this image", "aria-label": `Search from ${altOf(item)}${says && `, ${says}`}`,
    on: { click: () => goTo({ id: item.id, picture: null, k: STEP }).then(() => { scrollTo(0, 0); focusFirst(); }) },
  }, pictureOf(item));
  const element = make("li", { class: "card", "data-id": item.id }, pick);
  const caption = make("div", { class: "caption" }, make("b", { title: item.name }, ...breakable(nameOf(item))));
  element.append(caption);
  if (!isResult) return element;
  const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("i"));
  bar.firstChild.style.width = `${Math.max(0, Math.min(1, item.similarity)) * 100}%`;
  caption.append(
    make("span", { class: `words ${strength(item)}` }, item.words ?? ""),
    make("span", { class: "similarity", title: "Cosine similarity" }, bar, item.similarity.toFixed(2)),
  );
  element.append(actions(item));
  return element;
}

const STRENGTHS = { "very likely the same": "likely", "probably the same": "probable", perhaps: "perhaps" };
const strength = (item) => STRENGTHS[item.words] ?? "unlikely";

function actions(item) {
  const row = make("div", { class: "actions" });
  if (index.explains) {
    row.append(make("button", { type: "button", class: "ask-why", "aria-label": `Why ${nameOf(item)}?`, on: { click: () => lookCloser(item.id) } }, "Why?"));
  }
  if (index.takes_marks) {
    for (const [mark, sign, says] of [["right", "✓", "Right: it shows the same"], ["wrong", "✗", "Wrong: it shows something else"]]) {
      row.append(make("button", {
        type: "button", class: `mark ${mark}`, title: says, "aria-label": says, "aria-pressed": String(item.mark === mark),
        on: { click: () => setMark(item, item.mark === mark ? null : mark) },
      }, sign));
    }
  }
  return row;
}

async function setMark(item, mark) {
  const asked = { query_id: shown.query.item?.id ?? null, picture: shown.query.picture, id: item.id, mark };
  const send = () => ask("api/marks", {
    method: "POST", body: JSON.stringify(asked), headers: { "Content-Type": "application/json", Accept: "application/json" },
  });
  try {
    const kept = uploads.get(asked.picture);
    const done = await send().catch(async (fault) => {
      if (fault.code !== 410 || !kept) throw fault;
      await search({ ...now(), k: 1 }, kept.file); // the server has forgotten the picture: once more
      return send();
    });
    item.mark = done.mark;
    for (const button of grid.querySelectorAll(`.card[data-id="${item.id}"] .mark`)) {
      button.setAttribute("aria-pressed", String(button.classList.contains(mark)));
    }
    tell(mark === null ? `Mark taken back: ${nameOf(item)}` : `Marked as ${mark}: ${nameOf(item)}. ${count(done.num_marks, "pair", "pairs")} kept to train on.`);
  } catch (fault) {
    tell(fault.message, true);
  }
}
