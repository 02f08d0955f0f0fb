#!/usr/bin/env node
/** Stands in for the program as a whole: `perf`, and whatever the fake broker takes. */
await import(process.argv[2] === "perf" ? "./fake-perf.mjs" : "./fake-broker.mjs");
