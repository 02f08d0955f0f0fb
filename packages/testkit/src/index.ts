export { ManualClock } from "./manual-clock.ts";
export { type TestDatabase, withPostgres } from "./with-postgres.ts";
