"use strict"; // where two pictures match, over both of them

const why = byId("why");

function lookCloser(id) {
  const from = String(id);
  history.replaceState({ ...history.state, from }, "");
  history.pushState({ opened: true }, "", addressOf({ ...now(), why: id }));
  openWhy(id);
}

function closeWhy() {
  if (why.open) why.close();
}

why.querySelector(".close").addEventListener("click", () => leaveWhy());
why.addEventListener("cancel", (event) => { event.preventDefault(); leaveWhy(); });
why.addEventListener("click", (event) => { if (event.target === why) leaveWhy(); });

function leaveWhy() {
  const id = now().why;
  if (history.state?.opened) history.back();
  else { history.replaceState({}, "", addressOf({ ...now(), why: null })); closeWhy(); }
  if (id !== null) setTimeout(() => focusCard(id));
}

async function openWhy(id) {
  const item = shown?.neighbours.find((other) => other.id === id);
  if (!item) return;
  const [ours, theirs] = why.querySelectorAll("figure");
  byId("why-title").replaceChildren(...breakable(nameOf(item)));
  byId("why-words").textContent = [item.words && capital(item.words), `Similarity ${item.similarity.toFixed(3)}`,
    item.probability !== null && `${Math.round(item.probability * 100)} % of pairs this alike show the same, if half of all pairs do`,
  ].filter(Boolean).join(" · ");
  put(ours, query.querySelector("img").src, "The picture searched with", shown.query.item ? nameOf(shown.query.item) : "Your picture");
  put(theirs, `${item.image}?size=full`, altOf(item), nameOf(item));
  byId("details").replaceChildren(...[["file", item.name], ...Object.entries(item.metadata)].flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, ...breakable(String(value ?? "–")))]));
  byId("why-tools").hidden = true;
  byId("regions").replaceChildren();
  if (!why.open) why.showModal();
  const told = byId("why-status");
  told.textContent = "Looking where they match …";
  try {
    const given = new URLSearchParams({ id });
    if (shown.query.item) given.set("query_id", shown.query.item.id);
    else given.set("picture", shown.query.picture);
    const found = await ask(`api/explain?${given}`);
    if (now().why !== id) return;
    told.textContent = "";
    drawMatch(ours, found.a, "a", found);
    drawMatch(theirs, found.b, "b", found);
    byId("why-tools").hidden = false;
    listRegions(found);
  } catch (fault) {
    if (now().why === id) told.textContent = fault.message;
  }
}

function put(figure, url, alt, caption) {
  const image = figure.querySelector("img"), canvas = figure.querySelector("canvas");
  image.src = url;
  image.alt = alt;
  canvas.hidden = true;
  figure.querySelectorAll(".region").forEach((region) => region.remove());
  figure.querySelector("figcaption").replaceChildren(...breakable(caption));
}

function drawMatch(figure, side, name, found) {
  const image = figure.querySelector("img"), canvas = figure.querySelector("canvas"), frame = figure.querySelector(".frame");
  image.src = side.picture; // what the network sees of it
  const [rows, columns] = side.grid;
  canvas.width = columns;
  canvas.height = rows;
  const most = Math.max(...side.heat.flat(), 1e-9);
  const context = canvas.getContext("2d"), pixels = context.createImageData(columns, rows);
  side.heat.flat().forEach((value, place) => pixels.data.set(colour(Math.max(0, value) / most), place * 4));
  context.putImageData(pixels, 0, 0);
  canvas.hidden = false;
  found.pairs.forEach((pair, number) => {
    const box = pair[name], region = make("span", { class: "region", "data-region": number }, make("b", {}, String(number + 1)));
    Object.assign(region.style, {
      left: `${box.left * 100}%`, top: `${box.top * 100}%`, width: `${(box.right - box.left) * 100}%`, height: `${(box.bottom - box.top) * 100}%`,
    });
    frame.append(region);
  });
}

function colour(value) { // dark where little matches, clear and warm where much does
  const at = value ** 0.8;
  return [20 + 235 * at, 24 + 130 * at, 40 * (1 - at), 190 - 120 * at].map(Math.round);
}

function listRegions(found) {
  byId("regions").replaceChildren(...found.pairs.map((pair, number) => make("li", {
    on: { mouseenter: () => light(number), mouseleave: () => light(null) },
  }, pair.share === null ? `adds ${pair.contribution.toFixed(3)}` : `${Math.round(pair.share * 100)} % of the similarity`)));
}

function light(number) {
  why.classList.toggle("lit", number !== null);
  why.querySelectorAll(".region").forEach((region) => region.classList.toggle("on", Number(region.dataset.region) === number));
}

byId("heat").addEventListener("change", (event) => why.classList.toggle("plain", !event.target.checked));
