export { ArchivedPostgres } from "./archived-postgres.ts";
export { ManualClock } from "./manual-clock.ts";
export { selfSigned } from "./self-signed.ts";
export { setUp } from "./set-up.ts";
export { tablesWith } from "./tables-with.ts";
export {
  everyRow,
  lockTable,
  runSql,
  type TestDatabase,
  withEmptyServer,
  withPostgres,
} from "./with-postgres.ts";
