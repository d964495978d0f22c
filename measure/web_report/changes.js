// What differs from the other cache: counts first, then the facts that changed; the variants are in the table.
const SHOWN_AT_ONCE = 6; // lines of a list

function changes() {
  const other = data.against_digest.slice(0, 12), added = variants.filter((v) => v.change === "added"), changed = variants.filter((v) => v.change === "changed");
  $("changes").hidden = false;
  $("changes-title").textContent = `Compared with ${data.against}, index ${other}`;
  const counts = [["added", added.length, "only in this cache"], ["removed", data.removed.length, "only in the other"], ["changed", changed.length, "in both, and different"], ["unchanged", data.unchanged, "in both, and the same"]];
  for (const entry of counts) $("changes-counts").append(tile(...entry));
  for (const [fact, number] of data.changed_facts) $("changes-facts").append(make("span", null, {}, make("b", fact), ` ${number}`));
  $("changes-facts").hidden = !data.changed_facts.length;
  if (data.changed_facts.length) $("changes-facts").prepend(make("span", "Variants in which a fact changed:", { class: "soft" }));
  listed("The cache itself", data.cache_changes);
  listed("Removed", data.removed);
  if (added.length || changed.length) $("changes-list").append(revealer());
  if (!added.length && !changed.length && !data.removed.length && !data.cache_changes.length) $("changes-list").append(make("p", "Nothing changed: the two are the same."));
}

// A list of texts, closed where it is long.
function listed(title, texts) {
  if (!texts.length) return;
  const part = make("details", null, {}, make("summary", `${title}: ${texts.length}`), make("ul", null, {}, ...texts.map((text) => make("li", text.replaceAll(" -> ", " → ")))));
  part.open = texts.length <= SHOWN_AT_ONCE;
  $("changes-list").append(part);
}

function revealer() {
  const button = make("button", "Show the changed and added variants", { type: "button", id: "reveal" });
  button.addEventListener("click", () => {
    $("state").selectedIndex = FILTERS.findIndex(([name]) => name === CHANGED);
    update();
    $("variants").scrollIntoView();
  });
  return button;
}

