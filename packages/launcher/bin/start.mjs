#!/usr/bin/env node
/** `npm start`: sets everything up and serves the product until Ctrl-C. */
import { handOver, prepare } from "./prepare.mjs";

/** As the data plane's npm script `build`. */
const BROKER = ["build", "--release", "--locked", "-p", "millrace"];

await handOver(await prepare(BROKER), "start.ts", process.argv.slice(2));
