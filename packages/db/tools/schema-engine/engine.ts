import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import {
  bindMigrationAwareSqlAdapterFactory,
  type ErrorCapturingSqlMigrationAwareDriverAdapterFactory,
} from "@prisma/driver-adapter-utils";
import { createDatabase, type Datasource, databaseName, sessionFactory } from "./datasource.ts";

/** The engine's methods by the names that the CLI calls them. */
type Methods = Record<string, (params: unknown) => Promise<unknown>>;

interface MigrationRequest {
  readonly migrationsList: unknown;
  readonly filters: unknown;
}

/** The part of WebAssembly's interface that we use; its types come with browsers' libraries only. */
interface WasmRuntime {
  instantiate(
    module: Uint8Array,
    imports: Record<string, unknown>,
  ): Promise<{ instance: { exports: Record<string, unknown> } }>;
}
const { WebAssembly } = globalThis as unknown as { WebAssembly: WasmRuntime };

/** Methods that read the migrations' schema from a cache which only `devDiagnostic` fills. */
const NEED_DIAGNOSTIC = new Set(["evaluateDataLoss", "createMigration"]);
/** Methods whose empty answer is null and not an object. */
const ANSWER_NULL = new Set(["dbExecute", "reset"]);
/** How the engine says that its error is one which our adapter threw and kept. */
const EXTERNAL_ERROR = /External error \(reported by.*id[: ]+(\d+)/i;

/** Prisma's schema engine as WebAssembly, made when the first method is called. */
export class Engine {
  readonly #datasource: Datasource;
  readonly #datamodels: readonly string[];
  #methods: Promise<Methods> | undefined;
  #factory: ErrorCapturingSqlMigrationAwareDriverAdapterFactory | undefined;

  constructor(datasource: Datasource, datamodels: readonly string[]) {
    this.#datasource = datasource;
    this.#datamodels = datamodels;
  }

  async call(method: string, params: unknown): Promise<unknown> {
    if (method === "createDatabase") {
      await createDatabase(this.#datasource);
      return { databaseName: databaseName(this.#datasource) };
    }
    this.#methods ??= this.#load();
    const engine = await this.#methods;
    const name = method === "getDatabaseVersion" ? "version" : method;
    if (NEED_DIAGNOSTIC.has(name)) {
      const { migrationsList, filters } = params as MigrationRequest;
      await engine.devDiagnostic?.({ migrationsList, filters });
    }
    const run = engine[name];
    if (typeof run !== "function") throw new Error(`the schema engine has no method ${method}`);
    const answer = await run.call(engine, params);
    return answer ?? (ANSWER_NULL.has(name) ? null : {});
  }

  /** The error that the adapter threw, where the engine's error only refers to it. */
  originOf(error: unknown): unknown {
    const id = EXTERNAL_ERROR.exec(String((error as Error | undefined)?.message))?.[1];
    if (id === undefined) return error;
    return this.#factory?.errorRegistry.consumeError(Number(id))?.error ?? error;
  }

  async #load(): Promise<Methods> {
    const glue = await import("@prisma/schema-engine-wasm/schema_engine_bg");
    const { instance } = await WebAssembly.instantiate(readFileSync(wasmFile()), {
      "./schema_engine_bg.js": glue,
    });
    glue.__wbg_set_wasm(instance.exports);
    (instance.exports.__wbindgen_start as () => void)();
    this.#factory = bindMigrationAwareSqlAdapterFactory(sessionFactory(this.#datasource));
    const datamodels = this.#datamodels.map((path): [string, string] => [
      path,
      readFileSync(path, "utf8"),
    ]);
    const engine = await glue.SchemaEngine.new(
      { datamodels: datamodels.length > 0 ? datamodels : undefined },
      () => {},
      this.#factory,
    );
    return engine as unknown as Methods;
  }
}

function wasmFile(): string {
  const resolve = createRequire(import.meta.url).resolve;
  const glue = resolve("@prisma/schema-engine-wasm/schema_engine_bg");
  return join(dirname(glue), "schema_engine_bg.wasm");
}
