#!/usr/bin/env node
/** `npm test`: sets up what the tests need and runs them all. */
import { handOver, prepare } from "./prepare.mjs";

await handOver(await prepare("build:tests"), "test.ts", process.argv.slice(2));
