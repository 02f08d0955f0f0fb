/**
 * The proof of identity that the API asks for before something is destroyed or granted. The dialog of the
 * page says here how it asks; requests that were refused wait here for the answer.
 */

/** The API's code for it. */
export const PROOF_NEEDED = "reauthentication_required";

/** True once it was given, false where the user declined. */
type Ask = () => Promise<boolean>;

let ask: Ask | undefined;
/** Requests that are refused together are asked for once. */
let asked: Promise<boolean> | undefined;

/** Returns how to take it back. */
export function onProofNeeded(how: Ask): () => void {
  ask = how;
  return () => {
    if (ask === how) ask = undefined;
  };
}

export function proveIdentity(): Promise<boolean> {
  asked ??= (ask?.() ?? Promise.resolve(false)).finally(() => {
    asked = undefined;
  });
  return asked;
}
