// Written by generate.py from the OpenAPI document: do not change it by hand.

const AGAIN = new Set([429, 502, 503, 504]);
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 5_000;

/** What the service refused, or could not do. */
export class ServiceError extends Error {
  constructor(status, problem) {
    super([problem.title, problem.detail, problem.remedy].filter(Boolean).join(" "));
    this.name = "ServiceError";
    this.status = status;
    this.problem = problem;
  }
}

/**
 * A client of the live service. Every call may be sent again when no answer came: events are known
 * by what they say, items are put as they should be, and a slate that never arrived was not seen.
 */
export class Client {
  #url;
  #options;

  constructor(url, options = {}) {
    this.#url = url.replace(/\/+$/, "");
    this.#options = { token: undefined, timeout: 10_000, attempts: 4, fetch: globalThis.fetch, ...options };
  }

  recommend(body) {
    return this.#call("POST", `/v1/recommend`, { body });
  }

  rank(body) {
    return this.#call("POST", `/v1/rank`, { body });
  }

  feedback(body) {
    return this.#call("POST", `/v1/feedback`, { body });
  }

  listItems(query = {}) {
    return this.#call("GET", `/v1/items`, { query });
  }

  putItems(body) {
    return this.#call("PUT", `/v1/items`, { body });
  }

  getItem(itemId) {
    return this.#call("GET", `/v1/items/${encodeURIComponent(itemId)}`);
  }

  putItem(itemId, body) {
    return this.#call("PUT", `/v1/items/${encodeURIComponent(itemId)}`, { body });
  }

  removeItem(itemId) {
    return this.#call("DELETE", `/v1/items/${encodeURIComponent(itemId)}`);
  }

  getUser(userId) {
    return this.#call("GET", `/v1/users/${encodeURIComponent(userId)}`);
  }

  eraseUser(userId) {
    return this.#call("DELETE", `/v1/users/${encodeURIComponent(userId)}`);
  }

  async #call(method, path, { body, query } = {}) {
    const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
    const asked = given.length ? `?${new URLSearchParams(given)}` : "";
    for (let attempt = 1; ; attempt++) {
      let answer, failure;
      try {
        answer = await this.#options.fetch(this.#url + path + asked, {
          method,
          headers: this.#headers(body),
          body: body === undefined ? undefined : JSON.stringify(body),
          signal: AbortSignal.timeout(this.#options.timeout),
        });
        if (answer.ok) return await answer.json();
        failure = new ServiceError(answer.status, await problemOf(answer));
      } catch (error) {
        failure = error;
      }
      const last = attempt >= this.#options.attempts;
      if (last || (failure instanceof ServiceError && !AGAIN.has(failure.status))) throw failure;
      await new Promise((resolve) => setTimeout(resolve, pause(attempt, answer)));
    }
  }

  #headers(body) {
    const headers = {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (this.#options.token) headers.Authorization = `Bearer ${this.#options.token}`;
    return headers;
  }
}

/** Milliseconds before the next attempt: what the service asks for, or ever longer by chance. */
function pause(attempt, answer) {
  const asked = 1_000 * Number(answer?.headers.get("Retry-After") ?? 0);
  const own = FIRST_PAUSE * 2 ** (attempt - 1) * (0.5 + Math.random());
  return Math.min(Math.max(asked, own), LONGEST_PAUSE);
}

async function problemOf(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text);
  } catch {
    return { title: text || answer.statusText, status: answer.status };
  }
}
