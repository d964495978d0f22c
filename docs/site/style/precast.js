"use strict";
// A button that copies a block of code: what a reader types, not what a program prints.
const copied = (text) => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea"); // a page of a local folder may have no clipboard
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  return Promise.resolve();
};

for (const block of document.querySelectorAll("div[class*='highlight-'] > .highlight")) {
  if (/highlight-(text|default)\b/.test(block.parentElement.className)) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy this block");
  button.addEventListener("click", () => {
    const text = block.querySelector("pre").textContent.trimEnd();
    copied(text).then(() => {
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
  });
  block.append(button);
}

// The navigation shows where the reader is: the page itself does not move.
const here = document.querySelector(".sidebar-tree .current-page"), tree = document.querySelector(".sidebar-scroll");
if (here && tree) {
  const [row, room] = [here.getBoundingClientRect(), tree.getBoundingClientRect()];
  if (row.bottom > room.bottom) tree.scrollBy({ top: row.top - room.top - room.height / 2, behavior: "instant" });
}
