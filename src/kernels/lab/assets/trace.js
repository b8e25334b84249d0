// Traces: point at a line, or move to it with the keyboard, and every line that belongs to it lights up.
(() => {
  if (window.labTraces) { window.labTraces(); return; }
  const HINT = "Point at a line, or reach it with Tab and ↑ ↓, to see what it became. ← → change sides, Enter pins, Esc lets go.";
  const origins = (line) => (line.dataset.o ? line.dataset.o.split(" ") : []);
  const plural = (n) => n + (n === 1 ? " line" : " lines");
  let made = 0;

  const setUp = (root) => {
    root.dataset.ready = "";
    const id = "lab-trace-" + (made += 1) + "-" + Math.random().toString(36).slice(2, 8);
    const stages = [...root.querySelectorAll(".lab-trace-stage")];
    const python = root.querySelector(".lab-trace-python pre");
    const lines = [...root.querySelectorAll(".tl")];
    const paneOf = (line) => line.closest("pre");
    const stagePane = () => stages.find((stage) => stage.open).querySelector("pre");
    const titles = new Map([...root.querySelectorAll("pre")].map((pane) => [pane, pane.getAttribute("aria-label")]));
    let pinned = null;

    const status = document.createElement("p");
    status.className = "lab-trace-status";
    status.setAttribute("role", "status");
    status.textContent = HINT;
    root.querySelector(".lab-trace-panes").after(status);

    // Each pane is a list of lines, one of which Tab reaches; the arrow keys do the rest.
    const reachable = (line) => {
      for (const other of paneOf(line).querySelectorAll('.tl[tabindex="0"]')) other.tabIndex = -1;
      line.tabIndex = 0;
    };
    for (const pane of root.querySelectorAll("pre")) {
      for (const name of ["tabindex", "role", "aria-label"]) pane.removeAttribute(name);
      const list = pane.querySelector("code");
      list.setAttribute("role", "listbox");
      list.setAttribute("aria-label", titles.get(pane));
      list.setAttribute("aria-multiselectable", "true");
      for (const line of pane.querySelectorAll(".tl")) {
        line.setAttribute("role", "option");
        line.setAttribute("aria-selected", "false");
        if (line.dataset.o) line.tabIndex = -1;
        else line.setAttribute("aria-disabled", "true");
      }
      const first = pane.querySelector(".tl[data-o]");
      if (first) reachable(first);
    }

    const tabs = document.createElement("div");
    tabs.className = "lab-trace-tabs";
    tabs.setAttribute("role", "tablist");
    tabs.setAttribute("aria-label", "Stage of the compiler");
    const buttons = stages.map((stage, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.id = id + "-tab-" + i;
      button.setAttribute("role", "tab");
      button.setAttribute("aria-controls", id + "-stage-" + i);
      button.append(stage.querySelector("summary").textContent, document.createElement("span"));
      stage.id = id + "-stage-" + i;
      stage.setAttribute("role", "tabpanel");
      stage.setAttribute("aria-labelledby", button.id);
      tabs.append(button);
      return button;
    });
    root.querySelector(".lab-trace-stages").prepend(tabs);
    const choose = (index) => {
      stages.forEach((stage, i) => {
        stage.open = i === index;
        buttons[i].setAttribute("aria-selected", String(i === index));
        buttons[i].tabIndex = i === index ? 0 : -1;
      });
      reveal(stagePane());
    };

    // Scroll a pane, never the page, and only if none of its lit lines is in sight.
    const scrollTo = (line) => {
      const pane = paneOf(line);
      const inSight = line.offsetTop >= pane.scrollTop
        && line.offsetTop + line.offsetHeight <= pane.scrollTop + pane.clientHeight;
      if (!inSight) pane.scrollTop = line.offsetTop - pane.clientHeight / 3;
    };
    const reveal = (pane) => {
      const lit = [...pane.querySelectorAll(".is-lit")];
      const inSight = lit.some((line) => line.offsetTop >= pane.scrollTop
        && line.offsetTop + line.offsetHeight <= pane.scrollTop + pane.clientHeight);
      if (lit.length && !inSight) scrollTo(lit[0]);
    };

    const describe = (line, counts) => {
      const [own, ...callers] = origins(line);
      if (paneOf(line) !== python) {
        const calls = callers.map((caller) => ", called from line " + caller).join("");
        return "This line of " + titles.get(paneOf(line)) + " came from line " + own + calls + ".";
      }
      const became = stages.map((stage, i) => [counts[i], stage.querySelector("summary").textContent]);
      return "Line " + own + " became " + became.map(([n, title]) => plural(n) + " of " + title).join(", ") + ".";
    };

    const light = (line) => {
      const own = line ? origins(line)[0] : null;
      const chain = line ? origins(line) : [];
      const counts = stages.map(() => 0);
      for (const other of lines) {
        const theirs = origins(other);
        const inPython = paneOf(other) === python;
        const lit = inPython ? chain.includes(theirs[0]) : theirs.includes(own);
        other.classList.toggle("is-lit", lit);
        other.classList.toggle("is-pinned", other === pinned);
        other.setAttribute("aria-selected", String(lit));
        if (lit && !inPython) counts[stages.indexOf(other.closest(".lab-trace-stage"))] += 1;
      }
      buttons.forEach((button, i) => { button.lastChild.textContent = line ? String(counts[i]) : ""; });
      status.textContent = line ? describe(line, counts) : HINT;
      if (line) reveal(paneOf(line) === python ? stagePane() : python);
    };
    const focused = () => (root.contains(document.activeElement) && document.activeElement.matches(".tl[data-o]")
      ? document.activeElement : null);
    const settle = () => light(pinned || focused());
    const go = (line) => {
      if (!line) return;
      line.focus({ preventScroll: true });
      scrollTo(line);
    };

    root.addEventListener("pointerover", (event) => {
      const line = event.target.closest(".tl[data-o]");
      if (!pinned) light(line || focused());
    });
    root.addEventListener("pointerleave", settle);
    root.addEventListener("click", (event) => {
      const button = event.target.closest('[role="tab"]');
      if (button) { choose(buttons.indexOf(button)); settle(); return; }
      const line = event.target.closest(".tl[data-o]");
      if (!line) return;
      pinned = pinned === line ? null : line;
      light(line);
    });
    root.addEventListener("focusin", (event) => {
      if (!event.target.matches(".tl[data-o]")) return;
      reachable(event.target);
      if (!pinned) light(event.target);
    });
    root.addEventListener("focusout", (event) => {
      if (!pinned && !root.contains(event.relatedTarget)) light(null);
    });

    const alongTabs = { ArrowLeft: -1, ArrowRight: 1 };
    root.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const tab = buttons.indexOf(event.target);
      if (tab >= 0) {
        if (!(event.key in alongTabs)) return;
        const next = (tab + alongTabs[event.key] + buttons.length) % buttons.length;
        choose(next);
        settle();
        buttons[next].focus({ preventScroll: true });
        event.preventDefault();
        return;
      }
      const line = event.target.closest(".tl[data-o]");
      if (!line) return;
      const all = [...paneOf(line).querySelectorAll(".tl[data-o]")];
      const at = all.indexOf(line);
      const inPython = paneOf(line) === python;
      const own = origins(line)[0];
      const across = (pane) => [...pane.querySelectorAll(".tl[data-o]")].find((other) => origins(other).includes(own));
      const moves = {
        ArrowDown: () => go(all[at + 1]),
        ArrowUp: () => go(all[at - 1]),
        Home: () => go(all[0]),
        End: () => go(all[all.length - 1]),
        ArrowRight: () => inPython && go(across(stagePane())),
        ArrowLeft: () => !inPython && go(across(python)),
        Enter: () => { pinned = pinned === line ? null : line; light(line); },
        " ": () => moves.Enter(),
        Escape: () => { pinned = null; line.blur(); light(null); },
      };
      if (!(event.key in moves)) return;
      event.preventDefault();
      moves[event.key]();
    });

    choose(stages.findIndex((stage) => stage.open));
  };

  // In a notebook this script comes with each trace, ahead of it: a trace that is not all there yet waits for the next call.
  window.labTraces = () => {
    for (const root of document.querySelectorAll(".lab-trace:not([data-ready])")) {
      if (root.querySelector("figure > .lab-note")) setUp(root);
    }
  };
  window.labTraces();
  document.addEventListener("DOMContentLoaded", window.labTraces);
})();
