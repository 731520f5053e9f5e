// Searches the index beside it with onnxruntime-web: all it needs comes with the page, as gzip in base64, so that it runs from a file too.
"use strict";
(() => {
  const PAGE = 24; // results at a time
  const MOST_PIXELS = 60e6; // of a query: beyond, a tab may run out of memory
  const { about, stored } = window.likewise;
  const at = (id) => document.getElementById(id);
  const UNIT = about.width;
  let session, vectors, order, similarities, shown, shownAs, turn = 0;

  const bytesOf = async (name) => {
    const text = atob(stored[name]);
    delete stored[name];
    const packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(unpacked).arrayBuffer();
  };

  const fromHalf = (halves) => {
    // IEEE 754 of 16 bits; unit vectors hold neither infinities nor NaN.
    const table = new Float32Array(65536);
    for (let h = 0; h < 65536; h++) {
      const exponent = (h >> 10) & 31, fraction = h & 1023;
      const size = exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024);
      table[h] = h & 32768 ? -size : size;
    }
    return Float32Array.from(halves, (h) => table[h]);
  };

  const say = (words, isFault = false) => {
    at("status").textContent = words;
    at("status").classList.toggle("fault", isFault);
  };

  const load = async () => {
    if (typeof DecompressionStream === "undefined" || typeof WebAssembly === "undefined") {
      throw new Error("this browser is too old: expected one of 2023 or later");
    }
    vectors = fromHalf(new Uint16Array(await bytesOf("vectors")));
    ort.env.wasm.numThreads = 1; // several need headers that a file does not have
    ort.env.wasm.wasmBinary = await bytesOf("wasm");
    const glue = new Blob([await bytesOf("glue")], { type: "text/javascript" });
    ort.env.wasm.wasmPaths = { mjs: URL.createObjectURL(glue) };
    session = await ort.InferenceSession.create(new Uint8Array(await bytesOf("model")), { executionProviders: ["wasm"] });
    say("Ready.");
  };

  const pixelsOf = async (file) => {
    let picture;
    try {
      picture = await createImageBitmap(file, { imageOrientation: "from-image", colorSpaceConversion: "none", premultiplyAlpha: "default" });
    } catch {
      throw new Error(`${file.name || "this"} is not a picture that this browser can read`);
    }
    const { width, height } = picture;
    if (width * height > MOST_PIXELS) throw new Error(`${width} x ${height} pixels are too many for this page: shrink the picture first`);
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.fillStyle = "white"; // what is transparent becomes white
    context.fillRect(0, 0, width, height);
    context.drawImage(picture, 0, 0);
    picture.close();
    const rgba = context.getImageData(0, 0, width, height).data, rgb = new Uint8Array(width * height * 3);
    for (let i = 0, o = 0; i < rgba.length; i += 4) {
      rgb[o++] = rgba[i]; rgb[o++] = rgba[i + 1]; rgb[o++] = rgba[i + 2];
    }
    return new ort.Tensor("uint8", rgb, [height, width, 3]);
  };

  const wordsFor = (similarity) => {
    if (!about.steps) return null;
    let words = about.steps[0][1];
    for (const [from, said] of about.steps) if (similarity >= from) words = said;
    return words;
  };

  const kindOf = (words) => (/^(very|probably)/.test(words) ? "likely" : words === "perhaps" ? "perhaps" : "unlikely");

  const made = (name, className, text) => {
    const element = document.createElement(name);
    element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  const named = (className, name) => { // names of files and folders have no spaces to break a line at
    const element = made("span", className), parts = name.match(/[^_./\\-]+[_./\\-]*|[_./\\-]+/g) ?? [];
    parts.forEach((part, place) => element.append(...(place ? [document.createElement("wbr"), part] : [part])));
    return element;
  };

  const resultOf = (item) => {
    const [name, label] = about.items[item], words = wordsFor(similarities[item]);
    const line = document.createElement("li"), button = made("button", "");
    button.type = "button";
    const source = about.thumbnails[item];
    if (source) {
      const image = made("img", "");
      image.alt = label === null ? name : `${label}: ${name}`;
      image.loading = "lazy";
      image.src = source;
      button.append(image);
    } else button.append(made("span", "nothing", "no picture"));
    if (label !== null) button.append(named("label", label));
    const said = `${words === null ? "" : `${words}, `}${similarities[item].toFixed(3)}`;
    button.append(made("span", words === null ? "said" : `said ${kindOf(words)}`, said), named("name", name.split(/[\\/]/).pop()));
    button.title = `Search for what is like ${name}`;
    button.addEventListener("click", () => {
      turn++;
      at("query").hidden = !source;
      if (source) { at("query").src = source; at("query").alt = name; }
      show(vectors.subarray(item * UNIT, (item + 1) * UNIT), `Like ${name}`);
    });
    line.append(button);
    return line;
  };

  const showMore = () => {
    at("results").append(...Array.from(order.subarray(shown, shown + PAGE), resultOf));
    shown = Math.min(shown + PAGE, order.length);
    at("more").hidden = shown === order.length;
  };

  const show = (query, heading) => {
    similarities = new Float32Array(about.items.length);
    for (let item = 0, i = 0; item < similarities.length; item++) {
      let sum = 0;
      for (let k = 0; k < UNIT; k++) sum += query[k] * vectors[i++];
      similarities[item] = sum;
    }
    order = Uint32Array.from(similarities.keys()).sort((a, b) => similarities[b] - similarities[a] || a - b);
    shown = 0;
    at("results").replaceChildren();
    at("heading").textContent = heading;
    at("unknown").textContent = about.unknown;
    at("unknown").hidden = about.known === null || similarities[order[0]] >= about.known;
    at("found").hidden = false;
    at("drop").classList.add("asked");
    showMore();
    at("heading").focus({ preventScroll: true });
  };

  const search = async (file) => {
    const mine = ++turn;
    try {
      say("Looking…");
      await ready;
      const image = await pixelsOf(file);
      if (shownAs) URL.revokeObjectURL(shownAs);
      at("query").src = shownAs = URL.createObjectURL(file);
      at("query").alt = file.name || "Your picture";
      at("query").hidden = false;
      await new Promise((resume) => setTimeout(resume, 30)); // the picture is shown before the tab is busy
      const start = performance.now();
      const { embedding } = await session.run({ image });
      if (mine !== turn) return; // another was asked for meanwhile
      show(embedding.data, `Most like ${file.name || "your picture"}`);
      say(`${about.items.length.toLocaleString("en")} pictures compared in ${((performance.now() - start) / 1000).toFixed(1)} s.`);
    } catch (fault) {
      if (mine === turn) say(String(fault.message || fault), true);
    }
  };

  at("about").textContent = about.line;
  for (const words of about.words) at("words").append(made("li", "", words));
  at("more").addEventListener("click", showMore);
  at("file").addEventListener("change", (event) => { if (event.target.files[0]) search(event.target.files[0]); event.target.value = ""; });
  addEventListener("paste", (event) => { const [file] = event.clipboardData.files; if (file) search(file); });
  addEventListener("dragover", (event) => { event.preventDefault(); at("drop").classList.add("over"); });
  addEventListener("dragleave", () => at("drop").classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    at("drop").classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (file) search(file);
    else say("Drop the picture's file: what another page shows cannot be read from here.", true);
  });
  const ready = load().catch((fault) => { say(`The model could not be loaded: ${fault.message || fault}`, true); throw fault; });
  ready.catch(() => {}); // it was said
})();
