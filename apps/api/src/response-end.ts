import type { ServerResponse } from "node:http";

/** Closes the connection of a response that was not written within `ms`. */
export function cutUnwritten(response: ServerResponse, ms: number): void {
  if (response.closed) return;
  const timer = setTimeout(() => response.destroy(), ms);
  // A timer keeps no process alive that stops.
  timer.unref();
  response.once("close", () => clearTimeout(timer));
}
