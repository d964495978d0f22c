"""The contrast of each text of a page with what is behind it, as WCAG 2.2 defines it."""

from __future__ import annotations

from typing import Any

_TOO_LOW = """
const context = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const rgba = (text) => {
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = text;
  context.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
const light = (c) => [.2126, .7152, .0722].reduce((sum, weight, at) => {
  const v = c[at] / 255;
  return sum + weight * (v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
}, 0);
const behind = (element) => {
  if (!element) return [255, 255, 255, 1];
  const own = rgba(getComputedStyle(element).backgroundColor);
  return own[3] > .999 ? own : over(own, behind(element.parentElement));
};
const low = [];
for (const element of document.body.querySelectorAll('*')) {
  const text = [...element.childNodes].filter(n => n.nodeType === 3 && n.data.trim()).map(n => n.data.trim()).join(' ');
  const style = getComputedStyle(element), {width, height} = element.getBoundingClientRect();
  const shown = element.checkVisibility({opacityProperty: true, visibilityProperty: true}) && width > 1 && height > 1;
  if (!text || !shown || element.closest('script, style, option')) continue;
  const paper = behind(element.ownerSVGElement ? element.ownerSVGElement.parentElement : element);
  const ink = over(rgba(element.ownerSVGElement ? style.fill : style.color), paper);
  const [dim, bright] = [light(ink), light(paper)].sort((a, b) => a - b);
  const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  const ratio = (bright + .05) / (dim + .05);
  if (ratio < (large ? 3 : 4.5)) low.push(`${ratio.toFixed(2)} ${style.color}: ${text.slice(0, 40)}`);
}
return [...new Set(low)]
"""


def too_low(driver: Any) -> list[str]:
    """The visible texts of the page whose contrast is under 4.5, or under 3 for large ones."""
    found: list[str] = driver.execute_script(_TOO_LOW)
    return found
