/**
 * Passes a browser's request on to the API, so that the browser knows one origin and the session
 * cookie stays first-party. Bodies stream both ways: server-sent events pass as they come.
 */
import { apiUrl } from "../env.ts";

/** Hop-by-hop headers (RFC 9110, 7.6.1) and those that describe the encoding fetch has undone. */
const NOT_FORWARDED = new Set([
  "connection",
  "content-encoding",
  "content-length",
  "host",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** @returns what the API answered, or 502 where it does not answer. */
export async function forward(request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const hasBody = request.method !== "GET" && request.method !== "HEAD";
  try {
    const reply = await fetch(new URL(`${pathname}${search}`, apiUrl()), {
      method: request.method,
      headers: asked(request.headers),
      redirect: "manual",
      signal: request.signal,
      ...(hasBody && { body: request.body, duplex: "half" }),
    } as RequestInit);
    return new Response(reply.body, { status: reply.status, headers: passed(reply.headers) });
  } catch {
    return Response.json(
      { code: "api_unreachable", detail: "The API does not respond. Try again in a moment." },
      { status: 502 },
    );
  }
}

/** The API is next door: what it compresses would be undone here and compressed again. */
function asked(headers: Headers): Headers {
  const forwarded = passed(headers);
  forwarded.set("accept-encoding", "identity");
  return forwarded;
}

function passed(headers: Headers): Headers {
  return new Headers([...headers].filter(([name]) => !NOT_FORWARDED.has(name)));
}
