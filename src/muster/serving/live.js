// Keeps the list of runs, or the page of a run, as new as what `muster serve` has read.
(function () {
  "use strict";
  const body = document.body;
  const byId = (id) => document.getElementById(id);

  function ago(seconds) {
    const passed = Math.max(0, Date.now() / 1000 - seconds);
    for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
      if (passed >= length) return Math.round(passed / length) + " " + unit + " ago";
    }
    return Math.round(passed) + " s ago";
  }

  function showAges() {
    document.querySelectorAll("time[data-at]").forEach((time) => {
      time.title = time.title || time.textContent;
      time.textContent = ago(Number(time.dataset.at));
    });
  }

  // The list: the rows come as HTML in which every text of a run folder is escaped.
  function choose() {
    const name = byId("name").value.toLowerCase();
    const state = byId("state").value;
    const rows = document.querySelectorAll("#runs tbody tr");
    let shown = 0;
    rows.forEach((row) => {
      const fits = row.dataset.name.toLowerCase().includes(name) && (!state || row.dataset.state === state);
      row.hidden = !fits;
      shown += fits;
    });
    byId("count").textContent = shown === rows.length ? shown + " runs" : shown + " of " + rows.length + " runs";
  }

  function showRows(news) {
    const table = document.querySelector("#runs tbody");
    const rows = new Map([...table.children].map((row) => [row.dataset.run, row]));
    Object.entries(news.rows).forEach(([run, html]) => {
      const template = document.createElement("template");
      template.innerHTML = html;
      rows.set(run, template.content.firstElementChild);
    });
    table.replaceChildren(...news.order.map((run) => rows.get(run)).filter(Boolean));
    choose();
    showAges();
  }

  // A run: parts that have not changed stay, with what a reader has unfolded, zoomed or selected in them.
  function showContent(content) {
    const main = byId("parts");
    const known = new Map([...main.children].map((part) => [part.dataset.hash, part]));
    let next = main.firstElementChild;
    content.parts.forEach(([hash, html]) => {
      const part = known.get(hash) || newPart(hash, html);
      known.delete(hash);
      if (part === next) next = next.nextElementSibling;
      else main.insertBefore(part, next);
    });
    known.forEach((part) => part.remove());
    document.querySelector(".lead").textContent = content.lead;
    document.dispatchEvent(new CustomEvent("figures", { detail: content.figures }));
    showAges();
  }

  function newPart(hash, html) {
    const part = document.createElement("div");
    part.className = "part";
    part.dataset.hash = hash;
    part.innerHTML = html;
    return part;
  }

  let isFetching = false;
  async function fetchContent(version) {
    if (version === body.dataset.version || isFetching) return;
    isFetching = true;
    try {
      const answer = await fetch("/content/" + body.dataset.run);
      if (!answer.ok) return;
      showContent(await answer.json());
      body.dataset.version = answer.headers.get("X-Version");
    } finally {
      isFetching = false;
    }
  }

  function showLog(text) {
    const log = byId("log");
    const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    log.textContent = text;
    if (isAtEnd) log.scrollTop = log.scrollHeight;
  }

  function showSummary(html) {
    byId("summary").innerHTML = html;
    const state = document.querySelector("#summary .state");
    byId("stop").hidden = !state || !["starting", "running", "saving", "queued"].includes(state.textContent);
    showAges();
  }

  async function stop() {
    if (!window.confirm("Save this run and stop it? It can be resumed later.")) return;
    const button = byId("stop");
    button.disabled = true;
    byId("answer").textContent = "saving …";
    try {
      const answer = await fetch("/stop/" + body.dataset.run, { method: "POST" });
      byId("answer").textContent = await answer.text();
    } catch {
      byId("answer").textContent = "muster serve did not answer";
    }
    button.disabled = false;
  }

  // A browser keeps few connections to a server, so a page that nobody sees gives its own back.
  let events = null;
  function connect() {
    if (events) events.close();
    events = null;
    if (document.hidden) return;
    events = new EventSource(body.dataset.events);
    events.addEventListener("open", () => { byId("connection").hidden = true; });
    events.addEventListener("error", () => { byId("connection").hidden = false; });
    events.addEventListener("rows", (event) => showRows(JSON.parse(event.data)));
    events.addEventListener("state", (event) => showSummary(event.data));
    events.addEventListener("log", (event) => showLog(JSON.parse(event.data)));
    events.addEventListener("content", (event) => fetchContent(event.data));
  }
  document.addEventListener("visibilitychange", connect);
  connect();

  if (byId("runs")) {
    byId("name").addEventListener("input", choose);
    byId("state").addEventListener("input", choose);
    choose();
    // The page of a run has its theme from the script of its charts.
    const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
    const setTheme = (name) => { document.documentElement.dataset.theme = name; };
    setTheme(prefersDark.matches ? "dark" : "light");
    prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));
    byId("theme").addEventListener("click", () => {
      setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    });
  } else {
    byId("stop").addEventListener("click", stop);
    byId("log").scrollTop = byId("log").scrollHeight;
  }
  showAges();
  setInterval(showAges, 5000);
})();
