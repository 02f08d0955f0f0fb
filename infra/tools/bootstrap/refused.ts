/** What stops the bootstrap with a text for whoever runs it, and without a stack trace. */
export class Refused extends Error {
  override readonly name = "Refused";
}
