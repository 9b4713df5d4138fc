// One small box beside what the pointer or the keyboard is on.

import { fill } from "./dom.js";

const box = document.getElementById("tip");

export function tip(anchor, ...children) {
  fill(box, ...children);
  box.hidden = false;
  const [room, size] = [anchor.getBoundingClientRect?.() ?? anchor, box.getBoundingClientRect()];
  const left = Math.min(Math.max(8, room.left), innerWidth - size.width - 8);
  const below = room.bottom + 8 + size.height < innerHeight;
  box.style.setProperty("left", `${Math.max(8, left) + scrollX}px`);
  box.style.setProperty("top", `${(below ? room.bottom + 8 : Math.max(8, room.top - size.height - 8)) + scrollY}px`);
}

export function untip() {
  box.hidden = true;
}

document.addEventListener("pointerdown", untip); // a finger that touches anything else
document.addEventListener("keydown", (event) => { if (event.key === "Escape") untip(); });
