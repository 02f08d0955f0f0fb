#!/usr/bin/env node
/** `npm test`: sets up what the tests need and runs them all. */
import { handOver, prepare } from "./prepare.mjs";

/** As the data plane's npm script `build:tests`. */
const EVERYTHING = "build --workspace --lib --bins --tests --examples --locked".split(" ");

await handOver(await prepare(EVERYTHING), "test.ts", process.argv.slice(2));
