// api.js - requests to the service. A request returns the response as an object, or throws an
// ApiError. Only this module holds the credentials of the signed-in user.

import { toBase64 } from "./format.js";

const PATIENCE = 15000; // request timeout in milliseconds
const DOWNLOAD = 3600000; // file download timeout in milliseconds
const REMEMBERED = "bloomgate-authorization";

let authorization = remembered();

function remembered() {
  try {
    return sessionStorage.getItem(REMEMBERED);
  } catch {
    return null;
  }
}

export class ApiError extends Error {
  // `code` is the service's error code, "gone" (no response) or "bad_answer" (not JSON).
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export function signIn(user, password, remember) {
  authorization = user === ""
    ? `Bearer ${password}`
    : `Basic ${toBase64(new TextEncoder().encode(`${user}:${password}`))}`;
  try {
    if (remember) {
      sessionStorage.setItem(REMEMBERED, authorization);
    } else {
      sessionStorage.removeItem(REMEMBERED);
    }
  } catch {
    // If storage is unavailable, the login lasts until the page is reloaded.
  }
}

export function signOut() {
  authorization = null;
  try {
    sessionStorage.removeItem(REMEMBERED);
  } catch {
    // If storage is unavailable, there is nothing to remove.
  }
}

export function isSignedIn() {
  return authorization !== null;
}

// Sends a request and returns the response. `path` is relative to the page: "api/v1/info".
export async function send(method, path, body, signal, patience = PATIENCE) {
  const headers = { "X-Bloomgate": "dashboard" };
  if (authorization) {
    headers.Authorization = authorization;
  }
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
  }
  const limit = AbortSignal.timeout(patience);
  try {
    return await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal && AbortSignal.any ? AbortSignal.any([signal, limit]) : limit,
      cache: "no-store",
      credentials: "same-origin",
    });
  } catch (error) {
    if (signal && signal.aborted) {
      throw error;
    }
    throw new ApiError(0, "gone", limit.aborted
      ? `no response within ${patience / 1000} seconds` : "the server is unreachable");
  }
}

async function readAnswer(response) {
  if (response.status === 204) {
    return null;
  }
  let answer;
  try {
    answer = await response.json();
  } catch {
    throw new ApiError(response.status, response.ok ? "bad_answer" : "gone",
      `status ${response.status}: the response is not JSON`);
  }
  if (!response.ok) {
    const error = (answer && answer.error) || {};
    throw new ApiError(response.status, error.code || "internal",
      error.message || `status ${response.status} without a message`);
  }
  return answer;
}

export async function get(path, query, signal) {
  const text = query ? new URLSearchParams(Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== null && value !== "")).toString() : "";
  return readAnswer(await send("GET", text ? `${path}?${text}` : path, undefined, signal));
}

export async function post(path, body = {}) {
  return readAnswer(await send("POST", path, body));
}

export async function patch(path, body) {
  return readAnswer(await send("PATCH", path, body));
}

export async function remove(path) {
  return readAnswer(await send("DELETE", path));
}

// Downloads `path` to a file. If no user is signed in, the browser downloads the file directly, regardless of its size.
// Otherwise, the page must download the file itself, because only the page has the password.
export async function download(path, fileName) {
  const link = document.createElement("a");
  link.download = fileName;
  if (!authorization) {
    link.href = path;
    link.click();
    return;
  }
  const response = await send("GET", path, undefined, undefined, DOWNLOAD);
  if (!response.ok) {
    await readAnswer(response);
  }
  link.href = URL.createObjectURL(await response.blob());
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
