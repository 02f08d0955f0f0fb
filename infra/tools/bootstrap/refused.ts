/** Stops the bootstrap with a message for the user, and without a stack trace. */
export class Refused extends Error {
  override readonly name = "Refused";
}
