/** Amounts of money as people read them. */

const CENTS = { minimumFractionDigits: 2, maximumFractionDigits: 2 } as const;
/** Prices per request or per hour are far below a cent. */
const PRICE_DIGITS_MAX = 7;
/** What rounds to nothing is nothing: `-$0.00` says that something gets cheaper. */
const HALF_A_CENT = 0.005;

/** `1234.5` → `$1,234.50`. */
export function usd(amount: number): string {
  const rounded = Math.abs(amount) < HALF_A_CENT ? 0 : amount;
  return `${rounded < 0 ? "−" : ""}$${Math.abs(rounded).toLocaleString("en", CENTS)}`;
}

/** With its sign: `+$12.00`, `−$3.10`, `±$0.00`. */
export function usdChange(amount: number): string {
  if (Math.abs(amount) < HALF_A_CENT) return "±$0.00";
  return amount > 0 ? `+${usd(amount)}` : usd(amount);
}

/** A unit's price, of which each digit counts: `0.0000004` → `$0.0000004`. */
export function unitPrice(amount: number): string {
  const digits = { minimumFractionDigits: 2, maximumFractionDigits: PRICE_DIGITS_MAX };
  return `$${amount.toLocaleString("en", digits)}`;
}
