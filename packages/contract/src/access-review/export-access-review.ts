import { z } from "zod";
import { defineContract } from "../contract.ts";

export const exportAccessReview = defineContract({
  name: "accessReview.export",
  method: "GET",
  path: "/v1/access-review/export",
  summary: "Export the access review",
  description:
    "As CSV (RFC 4180) with a header line. Text that a spreadsheet would run as a formula begins with an apostrophe.",
  tag: "Access review",
  permission: "audit:read",
  successStatus: 200,
  text: "text/csv; charset=utf-8",
  response: z.string().meta({ description: "CSV" }),
});
