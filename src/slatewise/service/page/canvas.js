// Items and a user's path on a canvas. Points are set pixel by pixel: drawing 20,000 circles as paths
// could not follow a finger, and WebGL libraries build functions from text, which the policy forbids.

import { dark, groupColour, learnGroups } from "./colours.js";
import { h } from "./dom.js";

const LEVELS = 5; // of opacity
const NEAR = 10; // pixels within which a point is meant

export class MapCanvas {
  constructor(label, { height = 460, labels = false, onHover = () => {}, onPick = () => {} } = {}) {
    this.canvas = h("canvas", { class: "map", tabindex: "0", role: "application", "aria-roledescription": "map", "aria-label": label });
    this.canvas.style.setProperty("height", `${height}px`);
    this.labels = labels;
    this.onHover = onHover;
    this.onPick = onPick;
    this.data = null;
    this.path = [];
    this.spread = null;
    this.marked = [];
    this.only = null;
    this.centre = [0, 0];
    this.scale = 1;
    this.waiting = false;
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    dark.addEventListener("change", () => this.redraw());
  }

  setData(data) {
    learnGroups(data.groups.map((group) => group.name));
    this.data = data;
    const most = Math.log1p(data.views.reduce((a, b) => Math.max(a, b), 1));
    const scales = [...data.scale].sort((a, b) => a - b);
    const [low, high] = [scales[0] ?? 0, scales.at(-1) ?? 1];
    const crowd = Math.min(1, Math.sqrt(3000 / Math.max(1, data.ids.length))); // many are drawn smaller
    this.radius = Float32Array.from(data.views, (views) => Math.max(1, crowd * (1.6 + 5 * Math.sqrt(Math.log1p(views) / most))));
    const level = (scale) => (high > low ? Math.min(LEVELS - 1, Math.floor(LEVELS * (high - scale) / (high - low))) : LEVELS - 1);
    this.level = Uint8Array.from(data.scale, level);
    this.fit();
  }

  setUser(path, spread, marked = []) {
    this.path = path;
    this.spread = spread;
    this.marked = marked;
    this.redraw();
  }

  show(groups) {
    this.only = groups;
    this.redraw();
  }

  fit() {
    const { x, y } = this.data ?? { x: [], y: [] };
    // All but the outermost half percent: one item far away must not make the others a dot.
    const range = (values) => {
      const sorted = [...values].sort((a, b) => a - b);
      const out = sorted.length > 1000 ? Math.floor(0.005 * sorted.length) : 0;
      return [sorted[out] ?? -1, sorted[sorted.length - 1 - out] ?? 1];
    };
    const [[left, right], [bottom, top]] = [range(x), range(y)];
    this.centre = [(left + right) / 2, (bottom + top) / 2];
    this.size = [Math.max(right - left, 1e-3), Math.max(top - bottom, 1e-3)];
    this.scale = null;
    this.redraw();
  }

  zoom(factor, at = [this.canvas.clientWidth / 2, this.canvas.clientHeight / 2]) {
    const before = this.world(at);
    this.scale *= factor;
    const after = this.world(at);
    this.centre = [this.centre[0] + before[0] - after[0], this.centre[1] + before[1] - after[1]];
    this.redraw();
  }

  focusOn(index) {
    this.centre = [this.data.x[index], this.data.y[index]];
    this.found = index;
    this.redraw();
  }

  screen([x, y]) {
    return [this.canvas.clientWidth / 2 + (x - this.centre[0]) * this.scale, this.canvas.clientHeight / 2 - (y - this.centre[1]) * this.scale];
  }

  world([x, y]) {
    return [this.centre[0] + (x - this.canvas.clientWidth / 2) / this.scale, this.centre[1] - (y - this.canvas.clientHeight / 2) / this.scale];
  }

  nearest([x, y]) {
    if (!this.data) return null;
    let [best, found] = [NEAR * NEAR, null];
    const [dx, dy, s] = [this.canvas.clientWidth / 2 - this.centre[0] * this.scale, this.canvas.clientHeight / 2 + this.centre[1] * this.scale, this.scale];
    for (let index = 0; index < this.data.x.length; index += 1) {
      if (this.only && !this.only.has(this.data.group[index])) continue;
      const [ax, ay] = [dx + this.data.x[index] * s - x, dy - this.data.y[index] * s - y];
      if (ax * ax + ay * ay < best) [best, found] = [ax * ax + ay * ay, index];
    }
    return found;
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!width || !this.data) return;
    this.scale ??= 0.88 * Math.min(width / this.size[0], height / this.size[1]);
    const ratio = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio)) this.canvas.width = Math.round(width * ratio);
    if (this.canvas.height !== Math.round(height * ratio)) this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.drawPoints(pen, ratio);
    if (this.labels) this.drawLabels(pen);
    this.drawUser(pen);
  }

  drawPoints(pen, ratio) {
    const [width, height] = [this.canvas.width, this.canvas.height];
    if (this.picture?.width !== width || this.picture?.height !== height) this.picture = pen.createImageData(width, height);
    const pixels = this.picture.data;
    const paper = rgb(getComputedStyle(document.documentElement).getPropertyValue("--page").trim());
    new Uint32Array(pixels.buffer).fill((255 << 24 | paper[2] << 16 | paper[1] << 8 | paper[0]) >>> 0);
    const colours = this.data.groups.map((group) => rgb(groupColour(group.name)));
    const { x, y, group } = this.data;
    const s = this.scale * ratio;
    const [left, top] = [width / 2 - this.centre[0] * s, height / 2 + this.centre[1] * s];
    for (let index = 0; index < x.length; index += 1) {
      const faint = this.only && !this.only.has(group[index]);
      const alpha = faint ? 0.05 : 0.2 + 0.65 * this.level[index] / (LEVELS - 1);
      const mask = discOf(this.radius[index] * ratio);
      const reach = mask.reach;
      const [ax, ay] = [Math.round(left + x[index] * s), Math.round(top - y[index] * s)];
      if (ax < reach || ay < reach || ax >= width - reach || ay >= height - reach) continue;
      const [red, green, blue] = colours[group[index]];
      const side = 2 * reach + 1;
      for (let row = 0; row < side; row += 1) {
        let at = 4 * ((ay - reach + row) * width + ax - reach);
        for (let column = 0; column < side; column += 1, at += 4) {
          const cover = alpha * mask.cover[row * side + column];
          if (cover === 0) continue;
          pixels[at] += (red - pixels[at]) * cover;
          pixels[at + 1] += (green - pixels[at + 1]) * cover;
          pixels[at + 2] += (blue - pixels[at + 2]) * cover;
        }
      }
    }
    pen.putImageData(this.picture, 0, 0);
  }

  // The names of groups, as far as they do not lie upon each other.
  drawLabels(pen) {
    const text = getComputedStyle(document.documentElement);
    pen.font = `600 12px ${text.getPropertyValue("--font")}`;
    pen.textAlign = "center";
    pen.lineJoin = "round";
    const taken = [];
    const bySize = this.data.groups.map((group, index) => [group, index]).sort((a, b) => b[0].items - a[0].items).slice(0, 60);
    for (const [group, index] of bySize) {
      if (this.only && !this.only.has(index)) continue;
      const [x, y] = this.screen([group.x, group.y]);
      const half = pen.measureText(group.name).width / 2 + 4;
      if (taken.some(([ax, ay, ahalf]) => Math.abs(ax - x) < half + ahalf && Math.abs(ay - y) < 18)) continue;
      taken.push([x, y, half]);
      pen.strokeStyle = text.getPropertyValue("--page").trim();
      pen.lineWidth = 4;
      pen.strokeText(group.name, x, y);
      pen.fillStyle = text.getPropertyValue("--text").trim();
      pen.fillText(group.name, x, y);
    }
  }

  drawUser(pen) {
    const text = getComputedStyle(document.documentElement);
    const [ink, paper] = [text.getPropertyValue("--text").trim(), text.getPropertyValue("--card").trim()];
    const ring = (at, radius, colour, width) => {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.beginPath();
      pen.arc(...at, radius, 0, 2 * Math.PI);
      pen.stroke();
    };
    for (const point of this.marked) ring(this.screen(point), 7, ink, 1.5);
    if (this.found !== undefined && this.found !== null) ring(this.screen([this.data.x[this.found], this.data.y[this.found]]), 12, ink, 2.5);
    if (!this.path.length) return;
    const points = this.path.map((point) => this.screen(point));
    const last = points.at(-1);
    if (this.spread) {
      pen.fillStyle = ink;
      pen.globalAlpha = 0.07;
      pen.beginPath();
      pen.ellipse(...last, this.spread[0] * this.scale, this.spread[1] * this.scale, 0, 0, 2 * Math.PI);
      pen.fill();
      pen.globalAlpha = 1;
    }
    for (const [colour, width] of [[paper, 5], [ink, 2]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.lineJoin = "round";
      pen.beginPath();
      points.forEach((point, index) => (index ? pen.lineTo(...point) : pen.moveTo(...point)));
      pen.stroke();
    }
    points.slice(0, -1).forEach((point) => { pen.fillStyle = ink; pen.beginPath(); pen.arc(...point, 2.5, 0, 2 * Math.PI); pen.fill(); });
    pen.fillStyle = ink;
    pen.strokeStyle = paper;
    pen.lineWidth = 2.5;
    pen.beginPath();
    pen.arc(...last, 7, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
  }

  listen() {
    const touching = new Map();
    let moved = 0;
    const at = (event) => [event.offsetX, event.offsetY];
    this.canvas.addEventListener("pointerdown", (event) => {
      touching.set(event.pointerId, at(event));
      this.canvas.setPointerCapture(event.pointerId);
      moved = 0;
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const before = touching.get(event.pointerId);
      if (!before) { this.onHover(this.nearest(at(event)), event); return; }
      const [x, y] = at(event);
      if (touching.size === 2) {
        const other = [...touching].find(([id]) => id !== event.pointerId)[1];
        const apart = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
        this.zoom(apart([x, y]) / apart(before), other);
      } else {
        this.centre = [this.centre[0] - (x - before[0]) / this.scale, this.centre[1] + (y - before[1]) / this.scale];
        this.redraw();
      }
      moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
      touching.set(event.pointerId, [x, y]);
    });
    const end = (event) => {
      const held = touching.delete(event.pointerId);
      if (held && moved < 5 && event.type === "pointerup") {
        const found = this.nearest(at(event));
        if (found !== null) this.onPick(found);
      }
    };
    this.canvas.addEventListener("pointerup", end);
    this.canvas.addEventListener("pointercancel", end);
    this.canvas.addEventListener("pointerleave", (event) => this.onHover(null, event));
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), at(event));
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => {
      const step = 60 / this.scale;
      const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
      if (moves[event.key]) this.centre = this.centre.map((value, axis) => value + moves[event.key][axis]);
      else if (event.key === "+" || event.key === "=") { this.zoom(1.4); return; }
      else if (event.key === "-") { this.zoom(1 / 1.4); return; }
      else if (event.key === "0") { this.fit(); return; }
      else return;
      event.preventDefault();
      this.redraw();
    });
  }
}

const discs = new Map();

// How much of each pixel a disc of a radius covers, with a soft edge.
function discOf(radius) {
  const key = Math.round(2 * radius);
  if (!discs.has(key)) {
    const reach = Math.ceil(key / 2) + 1;
    const cover = new Float32Array((2 * reach + 1) ** 2);
    for (let index = 0; index < cover.length; index += 1) {
      const [dx, dy] = [index % (2 * reach + 1) - reach, Math.floor(index / (2 * reach + 1)) - reach];
      cover[index] = Math.min(1, Math.max(0, key / 2 + 0.5 - Math.hypot(dx, dy)));
    }
    discs.set(key, { reach, cover });
  }
  return discs.get(key);
}

const known = new Map();

// The red, green and blue of a colour, as the browser understands it.
function rgb(colour) {
  if (!known.has(colour)) {
    const pen = new OffscreenCanvas(1, 1).getContext("2d");
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    known.set(colour, [...pen.getImageData(0, 0, 1, 1).data.slice(0, 3)]);
  }
  return known.get(colour);
}
