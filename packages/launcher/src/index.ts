export { type RunningPostgres, startPostgres } from "./postgres.ts";
