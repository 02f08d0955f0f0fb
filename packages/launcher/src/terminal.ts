/** Output of the two commands to the terminal. */

/** A line with the time in front, which a terminal shows dimmed. */
export function print(text: string): void {
  console.log(timedLine(new Date(), text, process.stdout.isTTY === true));
}

/** A file or a pipe gets no colour codes. */
export function timedLine(at: Date, text: string, isTerminal: boolean): string {
  const time = `[${at.toISOString().slice(11, 19)}]`;
  return `${isTerminal ? `\u001b[2m${time}\u001b[0m` : time} ${text}`;
}

/** One line that says what is wrong, and one that says what to do. */
export function printError(problem: string, remedy: string): void {
  console.error(`\nmillrace: ${problem}\n  → ${remedy}`);
}
