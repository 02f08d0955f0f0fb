import { z } from "zod";

export const PAGE_SIZE_DEFAULT = 50;
/** One page of the largest items stays well below a megabyte. */
export const PAGE_SIZE_MAX = 1000;

/** Query fields of every list. Numbers arrive as strings over REST, as numbers over tRPC. */
export const pageQuery = {
  page_size: z.coerce
    .number<string | number>()
    .int()
    .min(1)
    .max(PAGE_SIZE_MAX)
    .optional()
    .meta({ description: `Items per page, ${PAGE_SIZE_DEFAULT} by default` }),
  page_token: z.string().max(1000).optional().meta({
    description: "next_page_token of the previous page; valid for the same organization and filter",
  }),
} as const;

/** `{items, next_page_token?}`; the token is absent on the last page. */
export function pageOf<T extends z.ZodType>(item: T) {
  return z.object({ items: z.array(item), next_page_token: z.string().optional() });
}
