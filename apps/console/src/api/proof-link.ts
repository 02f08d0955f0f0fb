import type { AppRouter } from "@millrace/router";
import { TRPCClientError, type TRPCLink } from "@trpc/client";
import { observable, type Unsubscribable } from "@trpc/server/observable";
import { PROOF_NEEDED, proveIdentity } from "../session/proof.ts";

/** Repeats a request once, after the user has proved who they are, where the API refused it for lack of that. */
export const proofLink: TRPCLink<AppRouter> = () => (request) =>
  observable((observer) => {
    let running: Unsubscribable | undefined;
    const send = (isFirst: boolean) => {
      running = request.next(request.op).subscribe({
        next: (value) => observer.next(value),
        complete: () => observer.complete(),
        error(error) {
          if (!isFirst || !isProofNeeded(error)) return observer.error(error);
          void proveIdentity().then((isGiven) => (isGiven ? send(false) : observer.error(error)));
        },
      });
    };
    send(true);
    return () => running?.unsubscribe();
  });

function isProofNeeded(error: unknown): boolean {
  return error instanceof TRPCClientError && error.data?.problem?.code === PROOF_NEEDED;
}
