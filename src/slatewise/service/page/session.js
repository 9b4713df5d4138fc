// Who looks: asks for a token where one is needed, and says what it allows.

import { ask, token } from "./api.js";
import { fill, h } from "./dom.js";

const RANK = { read: 1, write: 2, admin: 3 };

export class Session {
  constructor({ role, open }) {
    this.role = role;
    this.open = open;
  }

  may(role) {
    return RANK[this.role] >= RANK[role];
  }
}

// Resolve with a session once there is one; `again` is called when a token is refused later.
export async function begin(again) {
  const form = document.getElementById("sign-in");
  const problem = document.getElementById("sign-in-problem");
  const session = await tried() ?? await new Promise((resolve) => {
    form.hidden = false;
    document.getElementById("token").focus();
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      token.set(document.getElementById("token").value.trim());
      problem.textContent = "";
      const found = await tried((error) => {
        token.forget();
        problem.textContent = error.status === 401 ? "The service does not know this token." : error.message;
      });
      if (found) {
        document.getElementById("token").value = "";
        form.hidden = true;
        resolve(found);
      }
    });
  });
  document.addEventListener("refused", again, { once: true });
  show(session);
  return session;
}

async function tried(refused = () => {}) {
  try {
    return new Session(await ask("v1/token"));
  } catch (error) {
    refused(error);
    return null;
  }
}

function show(session) {
  const place = document.getElementById("session");
  if (session.open) fill(place, h("span", { class: "pill", text: "open to this machine" }));
  else fill(place, h("span", { class: "pill", text: `role ${session.role}` }),
    h("button", { class: "quiet", type: "button", text: "Sign out", on: { click: () => { token.forget(); location.reload(); } } }));
}
