export type { RequestContext } from "./context.ts";
export { createPromqlCaller } from "./metrics/query-promql.ts";
export { headerName, openApiDocument } from "./openapi.ts";
export { toDomainError, toProblem } from "./problem.ts";
export { type AppRouter, appRouter, createCaller } from "./router.ts";
