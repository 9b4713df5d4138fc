// The API of the service, asked with the token that was entered.

const KEY = "slatewise-token";

export class ApiError extends Error {
  constructor(status, detail, remedy) {
    super(detail);
    this.status = status;
    this.remedy = remedy;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

export async function ask(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method, headers, signal, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The service does not answer.", "It may be restarting; the page asks again.");
  }
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    if (answer.status === 401) document.dispatchEvent(new Event("refused"));
    throw new ApiError(answer.status, value.detail ?? `The answer has status ${answer.status}.`, value.remedy);
  }
  return value;
}
