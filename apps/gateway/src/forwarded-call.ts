/** One call to a broker whose link another gateway has: it is sent there, once. */
import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  type ServerResponse,
  request as sendRequest,
} from "node:http";
import { passAnswer } from "./answer.ts";
import {
  ANSWER_HEAD_MS_MAX,
  BODY_STALL_MS_MAX,
  CALLS_MAX,
  FORWARD_CONNECT_MS_MAX,
} from "./bounds.ts";
import { CallError } from "./call-error.ts";
import { hasBody, passedRequestHeaders } from "./passed-headers.ts";

/** Says that a request comes from a gateway, which is not to be forwarded again. */
export const FORWARDED_HEADER = "millrace-forwarded";

/** The other gateway answers with an error of its own first. */
const HEAD_MS_MAX = ANSWER_HEAD_MS_MAX + 5_000;

export class Forwarder {
  readonly #token: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: CALLS_MAX });

  /** `token` is that of all gateways. */
  constructor(token: string) {
    this.#token = token;
  }

  /** @throws CallError, after which the caller may still be answered. */
  async forward(
    internalUrl: string,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const upstream = sendRequest(internalUrl + (request.url ?? "/"), {
      agent: this.#agent,
      method: request.method ?? "GET",
      headers: {
        ...passedRequestHeaders(request.headers),
        authorization: `Bearer ${this.#token}`,
        [FORWARDED_HEADER]: "1",
        ...(hasBody(request.headers) && { "transfer-encoding": "chunked" }),
      },
      timeout: BODY_STALL_MS_MAX,
    });
    const cancel = () => upstream.destroy();
    upstream.on("timeout", cancel);
    response.once("close", cancel);
    if (hasBody(request.headers)) request.on("error", cancel).pipe(upstream);
    else upstream.end();
    try {
      const answer = await headOf(upstream);
      const { statusCode: status = 0, headers } = answer;
      const isWhole = () => answer.complete;
      await passAnswer({ status, headers, body: answer, isWhole }, response);
    } catch (error) {
      cancel();
      throw error;
    } finally {
      response.off("close", cancel);
      request.unpipe(upstream);
    }
  }

  close(): void {
    this.#agent.destroy();
  }
}

function headOf(upstream: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    let isConnected = false;
    const late = () => {
      const message = "The broker's gateway did not answer in time.";
      reject(new CallError("BROKER_TIMEOUT", message));
    };
    const timer = setTimeout(late, HEAD_MS_MAX);
    upstream.once("socket", (socket) => {
      isConnected = !socket.connecting;
      if (isConnected) return;
      const connecting = setTimeout(() => upstream.destroy(), FORWARD_CONNECT_MS_MAX);
      socket.once("connect", () => {
        isConnected = true;
      });
      for (const event of ["connect", "close"]) {
        socket.once(event, () => clearTimeout(connecting));
      }
    });
    // For as long as it lives: an error that nobody listens to would end the process.
    upstream.on("error", (cause) => {
      clearTimeout(timer);
      reject(
        isConnected
          ? new CallError(
              "BROKER_DISCONNECTED",
              "The broker's gateway ended during the call: the broker may have carried it out.",
              cause,
            )
          : new CallError("BROKER_NOT_CONNECTED", "The broker's gateway does not answer.", cause),
      );
    });
    upstream.once("response", (answer) => {
      clearTimeout(timer);
      resolve(answer);
    });
  });
}
