export { freePort, type PostgresOptions, type RunningPostgres, startPostgres } from "./postgres.ts";
