// What readers who use the keyboard, or hear a page, need beside what the theme has.

// The search is a dialog without a name.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");

// The list of a part whose first page stands for it has an empty label.
for (const list of document.querySelectorAll("nav[aria-labelledby]")) {
  const label = document.getElementById(list.getAttribute("aria-labelledby"));
  const link = list.parentElement.querySelector(":scope > .md-nav__container a, :scope > a");
  if (label && !label.textContent.trim() && link) {
    list.removeAttribute("aria-labelledby");
    list.setAttribute("aria-label", `Pages of ${link.textContent.trim()}`);
  }
}

// What scrolls sideways can be reached by the keyboard.
function reachable() {
  const parts = ".md-typeset pre > code, .md-typeset__scrollwrap, .md-typeset__table";
  for (const part of document.querySelectorAll(parts)) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}
addEventListener("load", reachable);
addEventListener("resize", reachable);
reachable();

// The theme gives each block of code a navigation of its own, later, and all the same name.
function named() {
  document.querySelectorAll(".md-code__nav:not([aria-label])").forEach((nav) => {
    const all = [...document.querySelectorAll("pre")];
    nav.setAttribute("aria-label", `Block of code ${all.indexOf(nav.closest("pre")) + 1}`);
  });
}
new MutationObserver(named).observe(document.body, {childList: true, subtree: true});
named();
