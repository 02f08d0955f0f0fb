import type { CostEstimate as Answer } from "@millrace/contract";
import type { CostEstimate } from "@millrace/domain";

/** The estimate that the API answers, in the domain's terms: pages show both alike. */
export function costFrom({ as_of, lines, ...rest }: Answer): CostEstimate {
  return {
    ...rest,
    asOf: as_of,
    lines: lines.map(({ unit_price, ...line }) => ({ ...line, unitPrice: unit_price })),
  };
}
