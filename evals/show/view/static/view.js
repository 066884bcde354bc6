/* The pages are complete without this script: it adds a theme switch, copying, sorting, filtering of exported lists,
   keyboard navigation, and the live numbers of a running run. It is a classic script, to run from file:// too. */
(function () {
  "use strict";

  var root = document.documentElement;

  function stored(value) {
    try {
      if (value !== undefined) localStorage.setItem("emend-theme", value);
      return localStorage.getItem("emend-theme");
    } catch (error) {
      return null; // storage can be disabled
    }
  }

  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  root.classList.add("scripted"); // before the first paint, like the theme, so that nothing moves
  var theme = stored();
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;

  function all(selector, within) {
    return Array.prototype.slice.call((within || document).querySelectorAll(selector));
  }

  function themeButton(button) {
    function label() {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", "Switch to the " + (isDark() ? "light" : "dark") + " theme");
    }
    button.addEventListener("click", function () {
      root.dataset.theme = isDark() ? "light" : "dark";
      stored(root.dataset.theme);
      label();
    });
    label();
  }

  function copyButton(button) {
    button.addEventListener("click", function () {
      var code = button.parentNode.querySelector("code");
      var done = function () {
        button.textContent = "Copied";
        setTimeout(function () { button.textContent = "Copy"; }, 1500);
      };
      if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, select);
      else select();
      function select() {
        getSelection().selectAllChildren(code);
      }
    });
  }

  function openButton(button) {
    button.addEventListener("click", function () {
      var open = button.getAttribute("aria-pressed") !== "true";
      all(button.dataset.open).forEach(function (details) { details.open = open; });
      button.setAttribute("aria-pressed", String(open));
    });
  }

  function key(cell) {
    var text = cell ? cell.dataset.value || cell.textContent.trim() : "";
    return text === "" || isNaN(text) ? text : Number(text);
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === "number") return -1; // numbers before texts such as "-"
    if (typeof b === "number") return 1;
    return a.localeCompare(b);
  }

  function sortable(table) {
    var heads = all("thead tr:last-child th", table);
    heads.forEach(function (head, column) {
      var label = head.querySelector("[data-sort]");
      if (!label) return;
      var button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = label.textContent;
      label.replaceWith(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") !== "descending";
        var rows = all("tbody tr", table);
        rows.sort(function (a, b) {
          var order = compare(key(a.cells[column]), key(b.cells[column]));
          return down ? -order : order;
        });
        heads.forEach(function (other) { if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        rows.forEach(function (row) { row.parentNode.appendChild(row); });
      });
    });
  }

  function narrowing(input) {
    var items = all(input.dataset.narrow);
    var count = document.getElementById(input.dataset.count);
    input.addEventListener("input", function () {
      var wanted = input.value.toLowerCase();
      var left = 0;
      items.forEach(function (item) {
        item.hidden = item.textContent.toLowerCase().indexOf(wanted) < 0;
        left += item.hidden ? 0 : 1;
      });
      if (count) count.textContent = left + " of " + items.length;
    });
  }

  // j and k move between the lines of a trace, and only while the focus is on one of them
  function moving(event) {
    var step = { j: 1, k: -1 }[event.key];
    var here = document.activeElement;
    if (!step || !here || here.tagName !== "SUMMARY" || event.ctrlKey || event.metaKey || event.altKey) return;
    var lines = all("main summary").filter(function (line) { return line.getClientRects().length; });
    var next = lines[lines.indexOf(here) + step];
    if (next) {
      next.focus();
      event.preventDefault();
    }
  }

  function shown(value) {
    if (typeof value !== "number") return value;
    return value.toLocaleString("en", { maximumFractionDigits: value < 100 && value % 1 ? 1 : 0 });
  }

  function replaceItems(list, texts) {
    list.replaceChildren.apply(list, (texts.length ? texts : ["none"]).map(function (text) {
      var item = document.createElement("li");
      item.textContent = text; // never as HTML, since the text is from a model or a server
      return item;
    }));
  }

  function fill(progress, data) {
    all("[data-live]", progress).forEach(function (place) {
      var name = place.dataset.live;
      var value = name in data.run ? data.run[name] : data[name];
      if (value === undefined || value === null) return;
      if (place.tagName === "PROGRESS") place.value = value;
      else place.textContent = shown(value);
    });
    data.editors.forEach(function (each, place) {
      var row = all("[data-editor]", progress)[place];
      if (!row) return;
      row.querySelector("progress").value = each.finished;
      row.querySelector("[data-finished]").textContent = shown(each.finished);
    });
    replaceItems(progress.querySelector("[data-errors]"), data.errors.map(function (error) {
      return error.name + ": " + error.value;
    }));
    replaceItems(progress.querySelector("[data-latest]"), data.latest.map(function (answer) {
      var record = answer.record;
      return record.editor + ", " + record.kind + ": " + record.prompt + " → " + (record.answer || "no answer") +
        " (" + answer.verdict + ")";
    }));
    return data.run.state === "running";
  }

  function live(progress) {
    var on = true;
    function poll() {
      fetch(progress.dataset.poll)
        .then(function (reply) { return reply.json(); })
        .then(function (data) { on = fill(progress, data); })
        .catch(function () {})
        .then(function () { if (on) setTimeout(poll, 1000); });
    }
    poll();
  }

  // in a notebook's frame, a link to an anchor would lead to an anchor of the notebook
  function framed(event) {
    var link = event.target.closest && event.target.closest("a[href^='#']");
    if (link && location.protocol === "about:") {
      event.preventDefault();
      location.hash = link.getAttribute("href");
    }
  }

  // a link to a closed section of a trace opens the section
  function reveal() {
    var target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    if (target) target.scrollIntoView();
  }

  document.addEventListener("DOMContentLoaded", function () {
    all("button[data-theme-switch]").forEach(themeButton);
    all("button[data-copy]").forEach(copyButton);
    all("button[data-open]").forEach(openButton);
    all("table[data-sortable]").forEach(sortable);
    all("input[data-narrow]").forEach(narrowing);
    all("[data-poll]").forEach(live);
    document.addEventListener("keydown", moving);
    document.addEventListener("click", framed);
    addEventListener("hashchange", reveal);
    reveal();
  });
})();
