// Code and tables that are wider than the window scroll in boxes. Keys scroll only what has the focus.
const sizes = new ResizeObserver((changed) => {
  for (const { target } of changed) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
document$.subscribe(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) sizes.observe(box);
});
