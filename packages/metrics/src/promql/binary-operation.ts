import type { Operator } from "./expression.ts";

/** What an operator makes of two numbers; undefined where a comparison does not hold. */
export function compute(operator: Operator, a: number, b: number): number | undefined {
  switch (operator) {
    case "+":
      return a + b;
    case "-":
      return a - b;
    case "*":
      return a * b;
    case "/":
      return a / b;
    case "%":
      return a % b;
    case "^":
      return power(a, b);
    case "==":
      return a === b ? a : undefined;
    case "!=":
      return a !== b ? a : undefined;
    case ">":
      return a > b ? a : undefined;
    case "<":
      return a < b ? a : undefined;
    case ">=":
      return a >= b ? a : undefined;
    case "<=":
      return a <= b ? a : undefined;
    default:
      throw new Error(`${operator} is not about numbers`);
  }
}

/** As Go has it: 1 to any power, and −1 to an infinite one, is 1, where JavaScript says NaN. */
function power(base: number, exponent: number): number {
  if (base === 1 || (base === -1 && Math.abs(exponent) === Number.POSITIVE_INFINITY)) return 1;
  return base ** exponent;
}
