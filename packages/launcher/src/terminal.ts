/** Output of the two commands to the terminal. */

/** A line with the time in front. */
export function print(text: string): void {
  console.log(`\u001b[2m[${new Date().toISOString().slice(11, 19)}]\u001b[0m ${text}`);
}

/** One line that says what is wrong, and one that says what to do. */
export function printError(problem: string, remedy: string): void {
  console.error(`\nmillrace: ${problem}\n  → ${remedy}`);
}
