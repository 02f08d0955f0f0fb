#!/usr/bin/env node
/** `npm start`: sets everything up and serves the product until Ctrl-C. */
import { handOver, prepare } from "./prepare.mjs";

await handOver(await prepare("build"), "start.ts", process.argv.slice(2));
