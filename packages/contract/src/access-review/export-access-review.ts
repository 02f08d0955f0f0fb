import { z } from "zod";
import { defineContract } from "../contract.ts";

export const exportAccessReview = defineContract({
  name: "accessReview.export",
  method: "GET",
  path: "/v1/access-review/export",
  summary: "Export the access review",
  description:
    "As CSV (RFC 4180) with a header line. Text that a spreadsheet would run as a formula begins with an apostrophe. The column complete is false in every line if there are more API keys than are listed.",
  tag: "Access review",
  permission: "access:review",
  successStatus: 200,
  text: "text/csv; charset=utf-8",
  response: z.string().meta({ description: "CSV" }),
});
