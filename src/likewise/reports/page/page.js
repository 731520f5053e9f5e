"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const data = JSON.parse(document.getElementById("data").textContent);
  root.classList.add("scripted");

  // light and dark: the system's choice until the reader makes one
  const darkSystem = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : darkSystem.matches);
  const redraws = [];
  const toggle = document.getElementById("theme");
  const showTheme = () => {
    toggle.textContent = isDark() ? "light" : "dark";
    toggle.setAttribute("aria-label", `switch to ${toggle.textContent} colours`);
    redraws.forEach((redraw) => redraw());
  };
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
  });
  darkSystem.addEventListener("change", showTheme);

  // data sets: one at a time
  const choices = all(".choice button[data-dataset]");
  const chooseDataset = (name) => {
    choices.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.dataset === name)));
    all("[data-of]").forEach((block) => { block.hidden = block.dataset.of !== name; });
    redraws.forEach((redraw) => redraw());
  };
  choices.forEach((button) => button.addEventListener("click", () => chooseDataset(button.dataset.dataset)));

  // sorting: numbers with the largest first, words from A; what has no value stays last
  all("table.board").forEach((table) => {
    const heads = all("thead th", table);
    const bodies = [...table.tBodies].filter((body) => !body.classList.contains("between"));
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const value = (row) => row.cells[column].dataset.sort;
        const numeric = bodies.flatMap((body) => [...body.rows]).every((row) => value(row) === "" || !Number.isNaN(Number(value(row))));
        const before = head.getAttribute("aria-sort");
        const down = before === "none" ? numeric : before === "ascending";
        const compare = (a, b) => (numeric ? Number(a) - Number(b) : a.localeCompare(b));
        bodies.forEach((body) => body.append(...[...body.rows].sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          if (x === "" || y === "") return Number(x === "") - Number(y === "");
          return down ? compare(y, x) : compare(x, y);
        })));
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
      });
    });
  });

  // a method pointed at in a key or table stands out in every chart; a click in a key keeps it so
  let pinned = null;
  const focusOn = (method) => {
    root.classList.toggle("focusing", method !== null);
    all("svg [data-method]").forEach((mark) => mark.classList.toggle("focused", mark.dataset.method === method));
  };
  all(".key button, table.board tr[data-method]").forEach((handle) => {
    handle.addEventListener("pointerenter", () => focusOn(handle.dataset.method));
    handle.addEventListener("pointerleave", () => focusOn(pinned));
  });
  all(".key button").forEach((button) => {
    button.addEventListener("click", () => {
      pinned = pinned === button.dataset.method ? null : button.dataset.method;
      all(".key button").forEach((other) => other.setAttribute("aria-pressed", String(other.dataset.method === pinned)));
      focusOn(pinned);
    });
  });

  // an item in words, and in a picture where there is one
  const describe = (holder, items, item, withPicture) => {
    const label = document.createElement("b");
    const name = document.createElement("small");
    label.textContent = items.classes[items.label[item]];
    name.textContent = items.names[item];
    holder.replaceChildren(label, name);
    if (withPicture && items.sprite) {
      const picture = document.createElement("i");
      picture.className = "thumb";
      picture.style.setProperty("--c", item % items.sprite.columns);
      picture.style.setProperty("--r", Math.floor(item / items.sprite.columns));
      holder.prepend(picture);
    }
  };

  // ranked lists: one query at a time, and the name of what is pointed at
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  all(".examples").forEach((block) => {
    const items = data.items[block.dataset.items];
    const picks = all(".picks button", block);
    const panels = all(".panel", block);
    const choose = (chosen, focus) => {
      picks.forEach((pick, i) => {
        pick.setAttribute("aria-selected", String(i === chosen));
        pick.tabIndex = i === chosen ? 0 : -1;
        panels[i].classList.toggle("chosen", i === chosen);
      });
      if (focus) picks[chosen].focus();
    };
    picks.forEach((pick, i) => {
      pick.addEventListener("click", () => choose(i, false));
      pick.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step) choose((i + step + picks.length) % picks.length, true);
      });
    });
    choose(0, false);
    block.addEventListener("pointerover", (event) => {
      const tile = event.target.closest("[data-i]");
      tip.hidden = !tile;
      if (!tile) return;
      describe(tip, items, Number(tile.dataset.i), false);
      const box = tile.getBoundingClientRect();
      const left = Math.min(box.left, root.clientWidth - tip.offsetWidth - 8);
      tip.style.left = `${Math.max(8, left) + scrollX}px`;
      tip.style.top = `${box.bottom + 10 + scrollY}px`;
    });
    block.addEventListener("pointerleave", () => { tip.hidden = true; });
  });

  // the map
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const SHAPES = 5;
  const shape = (pen, kind, x, y, r) => {
    pen.beginPath();
    if (kind === 0) pen.arc(x, y, r, 0, 2 * Math.PI);
    else if (kind === 1) pen.rect(x - r * 0.88, y - r * 0.88, r * 1.76, r * 1.76);
    else {
      const corners = { 2: 3, 3: 4, 4: 3 }[kind];
      const turn = kind === 4 ? Math.PI / 2 : -Math.PI / 2;
      for (let i = 0; i < corners; i += 1) {
        const angle = turn + (2 * Math.PI * i) / corners;
        pen.lineTo(x + 1.25 * r * Math.cos(angle), y + 1.25 * r * Math.sin(angle));
      }
      pen.closePath();
    }
  };
  all(".map").forEach((block) => {
    const items = data.items[block.dataset.items];
    const canvas = block.querySelector(".stage canvas");
    const card = block.querySelector(".card");
    const select = block.querySelector(".map-method");
    const pictures = block.querySelector(".pictures");
    const pen = canvas.getContext("2d");
    const onMap = items.map;
    const classes = [...new Set(onMap.map((item) => items.label[item]))].sort((a, b) => a - b);
    const rank = new Map(classes.map((label, i) => [label, i]));
    let now = Float64Array.from(items.places[select.value]);
    let chosen = -1; // the item pointed at
    let shown = -1; // the class that stands out
    let sheet = null;
    if (items.sprite) {
      const probe = document.createElement("i");
      probe.className = "thumb";
      card.append(probe);
      const image = new Image();
      image.addEventListener("load", () => { sheet = image; draw(); });
      image.src = getComputedStyle(probe).backgroundImage.slice(5, -2);
      probe.remove();
    }
    const colour = (label) => {
      const hue = (rank.get(label) * 137.508) % 360;
      const level = rank.get(label) % 3;
      return isDark() ? `hsl(${hue} 62% ${58 + 7 * level}%)` : `hsl(${hue} 68% ${30 + 8 * level}%)`;
    };
    const place = (i) => {
      const [width, height] = [canvas.clientWidth, canvas.clientHeight];
      const edge = 26;
      // both axes on one scale, so that distances on the screen are those of the map
      const scale = Math.min(width - 2 * edge, height - 2 * edge) / 1000;
      return [width / 2 + (now[2 * i] - 500) * scale, height / 2 + (now[2 * i + 1] - 500) * scale];
    };
    const draw = () => {
      const ratio = devicePixelRatio || 1;
      const [width, height] = [canvas.clientWidth, canvas.clientHeight];
      if (!width) return;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      const label = chosen < 0 ? shown : items.label[onMap[chosen]];
      const order = onMap.map((_, i) => i).sort((a, b) => (items.label[onMap[a]] === label) - (items.label[onMap[b]] === label));
      const r = width < 500 ? 3.4 : 4.4;
      const drawPictures = pictures && pictures.checked && sheet;
      for (const i of order) {
        const item = onMap[i];
        const alike = items.label[item] === label;
        const [x, y] = place(i);
        pen.globalAlpha = label < 0 || alike ? 0.85 : 0.16;
        pen.fillStyle = pen.strokeStyle = colour(items.label[item]);
        if (drawPictures) {
          const side = (width < 500 ? 14 : 20) * (alike ? 1.3 : 1);
          const { columns, side: tile } = items.sprite;
          pen.drawImage(sheet, (item % columns) * tile, Math.floor(item / columns) * tile, tile, tile, x - side / 2, y - side / 2, side, side);
          pen.lineWidth = 2;
          pen.strokeRect(x - side / 2, y - side / 2, side, side);
        } else {
          shape(pen, rank.get(items.label[item]) % SHAPES, x, y, alike ? r * 1.35 : r);
          pen.fill();
        }
      }
      if (chosen >= 0) {
        const [x, y] = place(chosen);
        pen.globalAlpha = 1;
        pen.lineWidth = 2;
        pen.strokeStyle = getComputedStyle(root).getPropertyValue("--ink");
        pen.beginPath();
        pen.arc(x, y, 13, 0, 2 * Math.PI);
        pen.stroke();
      }
    };
    const show = (i) => {
      chosen = i;
      card.hidden = i < 0;
      if (i >= 0) {
        describe(card, items, onMap[i], true);
        const [x, y] = place(i);
        const room = canvas.clientWidth - card.offsetWidth - 6;
        const left = x + 20 > room ? x - 20 - card.offsetWidth : x + 20;
        card.style.left = `${Math.max(6, Math.min(left, room))}px`;
        card.style.top = `${Math.max(6, Math.min(y - 30, canvas.clientHeight - card.offsetHeight - 6))}px`;
      }
      draw();
    };
    const nearest = (x, y, within) => {
      let best = -1;
      let least = within * within;
      for (let i = 0; i < onMap.length; i += 1) {
        const [px, py] = place(i);
        const square = (px - x) ** 2 + (py - y) ** 2;
        if (square < least) [best, least] = [i, square];
      }
      return best;
    };
    const point = (event) => {
      const box = canvas.getBoundingClientRect();
      const found = nearest(event.clientX - box.left, event.clientY - box.top, event.pointerType === "touch" ? 32 : 18);
      if (found !== chosen) show(found);
    };
    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("pointerdown", point);
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") show(-1); });
    canvas.addEventListener("blur", () => show(-1));
    const step = (by) => {
      select.selectedIndex = (select.selectedIndex + by + select.length) % select.length;
      select.dispatchEvent(new Event("change"));
    };
    canvas.addEventListener("keydown", (event) => {
      const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] || [0, 0];
      if (dx || dy) {
        event.preventDefault();
        if (chosen < 0) {
          show(nearest(canvas.clientWidth / 2, canvas.clientHeight / 2, Infinity));
          return;
        }
        // the nearest item that lies within 45 degrees of the key's direction
        const [x, y] = place(chosen);
        let best = -1;
        let least = Infinity;
        for (let i = 0; i < onMap.length; i += 1) {
          const [px, py] = place(i);
          const along = (px - x) * dx + (py - y) * dy;
          const across = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
          if (along > 0.5 && across <= along && along + across < least) [best, least] = [i, along + across];
        }
        if (best >= 0) show(best);
      } else if (event.key === "Escape") show(-1);
      else if (event.key === "n") step(1);
      else if (event.key === "p") step(-1);
    });
    const legend = classes.map((label) => {
      const button = document.createElement("button");
      const sample = document.createElement("canvas");
      const name = document.createElement("bdi");
      button.type = "button";
      name.textContent = button.title = items.classes[label];
      button.append(sample, name);
      const standOut = (value) => () => { shown = value; draw(); };
      for (const event of ["pointerenter", "focus"]) button.addEventListener(event, standOut(label));
      for (const event of ["pointerleave", "blur"]) button.addEventListener(event, standOut(-1));
      const row = document.createElement("li");
      row.append(button);
      return { row, sample, label };
    });
    block.querySelector(".classes").append(...legend.map((entry) => entry.row));
    const longest = Math.max(...classes.map((label) => items.classes[label].length)); // names as short as digits stand in three columns
    block.querySelector(".classes").style.setProperty("--entry", `${Math.max(6.5, 2.4 + 0.5 * Math.min(longest, 30))}rem`);
    const drawLegend = () => legend.forEach(({ sample, label }) => {
      sample.width = sample.height = 28;
      const brush = sample.getContext("2d");
      brush.fillStyle = colour(label);
      shape(brush, rank.get(label) % SHAPES, 14, 14, 9);
      brush.fill();
    });
    redraws.push(drawLegend);
    let run = 0;
    select.addEventListener("change", () => {
      const from = now;
      const to = Float64Array.from(items.places[select.value]);
      const start = performance.now();
      const mine = (run += 1);
      const frame = (time) => {
        if (mine !== run) return;
        const share = still ? 1 : Math.min(1, Math.max(0, (time - start) / 500));
        const eased = share * share * (3 - 2 * share);
        now = share === 1 ? to : from.map((value, i) => value + (to[i] - value) * eased);
        if (chosen >= 0) show(chosen); else draw();
        if (share < 1) requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    });
    all(".step", block).forEach((button) => button.addEventListener("click", () => step(Number(button.dataset.step))));
    if (pictures) pictures.addEventListener("change", draw);
    new ResizeObserver(draw).observe(canvas);
    redraws.push(draw);
  });

  all(".copy").forEach((button) => button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code); // a page from disk may not write to the clipboard everywhere
    }
  }));

  if (choices.length) chooseDataset(choices[0].dataset.dataset);
  showTheme();
})();
