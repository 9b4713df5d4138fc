// Colours of groups and arms, the same in every view, for a light page and a dark one.

export const dark = matchMedia("(prefers-color-scheme: dark)");

const ARMS = { light: ["#2f5fc4", "#b8560f", "#1f7a57", "#8046b8", "#a8324f", "#4c6472"], dark: ["#84a9ff", "#f0a35e", "#63cfa2", "#c39af0", "#f08aa5", "#a3b8c4"] };

const names = new Map();

// A group keeps the number it was first seen with; neighbours in number are far apart in hue.
function number(group) {
  if (!names.has(group)) names.set(group, names.size);
  return names.get(group);
}

// In the order of the catalogue's groups, so that every view agrees.
export function learnGroups(groups) {
  for (const group of groups) number(group);
}

export function groupColour(group, alpha = 1) {
  const hue = (250 + 137.508 * number(group)) % 360;
  const lightness = dark.matches ? 76 : 56;
  return `oklch(${lightness}% 0.14 ${hue.toFixed(1)} / ${alpha})`;
}

export function armColour(index) {
  const colours = dark.matches ? ARMS.dark : ARMS.light;
  return colours[index % colours.length];
}

export const faded = (hex, alpha) => {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
};
