import { type Contract, contracts, type HttpMethod, Problem } from "@millrace/contract";
import { z } from "zod";
import {
  type CreateDocumentOptions,
  createDocument,
  type ZodOpenApiObject,
  type ZodOpenApiOperationObject,
} from "zod-openapi";

const DESCRIPTION = `
Manage Millrace clusters, topics and metrics.

**Authentication.** Send an API key of your organization: \`Authorization: Bearer mrk_…\`. Streams
and \`?wait=\` end within 5 seconds after the key, session, membership or permission was revoked.

**Operations.** Requests that take time return 202 and \`Location: /v1/operations/op_…\`. Follow the
operation with \`?wait=30s\` or its event stream.

**Retries.** Send \`Idempotency-Key\` with a POST. For 24 hours the same request with the same key
returns the first answer. A dry run does not use up the key.

**Updates** are merge patches (RFC 7396): absent fields stay, \`null\` resets a field to its default.
Send \`If-Match\` with the \`ETag\` you read: the update fails with 412 if the resource has changed.

**Dry runs.** \`?validate_only=true\` returns 200 with a preview of changes, cost, policy findings and
warnings, and changes nothing.

**Limits.** A user or API key sends 60 requests per second, with bursts of 600; an organization 150,
with bursts of 1500; an address 200, with bursts of 2000. \`RateLimit\` names the limit that is closest
to its end with the requests that remain (\`r\`) and the seconds until it is full again (\`t\`);
\`RateLimit-Policy\` has its burst (\`q\`) and the seconds that it takes to refill (\`w\`). Sign-ins are
limited per address and account. 429 and 503 carry \`Retry-After\` where the time is known. An organization makes one \`validate_only\` plan at a time; four more can queue. A
user or API key has 8 record streams, 4 produce requests and 24 MiB of record reads (the sum of
their \`max_bytes\`) at a time; an organization has 24, 8 and 32 MiB.

**Lists** use \`page_size\` and \`page_token\`. \`next_page_token\` is absent on the last page.

**Prometheus' HTTP API** of a cluster, for Grafana and other clients of it, is below
\`/v1/clusters/{cluster_id}/prometheus/api/v1/\`: \`query\`, \`query_range\`, \`series\`, \`labels\`,
\`label/{name}/values\`, \`metadata\` and \`status/buildinfo\`, each with GET and POST. Parameters, answers
and errors are [Prometheus' own](https://prometheus.io/docs/prometheus/latest/querying/api/).

**Errors** are \`application/problem+json\` (RFC 9457) with a stable \`code\`; \`errors\` points at each
invalid field. Resources of other organizations return 404.

**Formats.** 64-bit numbers are decimal strings. Times are RFC 3339 in UTC. Responses are
compressed for clients that send \`Accept-Encoding: gzip\`.
`.trim();

/** Where `npm start` serves the API; written into the committed document. */
const DEFAULT_SERVER_URL = "http://localhost:4000";

const idempotencyKey = z
  .string()
  .min(1)
  .max(255)
  .optional()
  .meta({ description: "Makes the request safe to retry for 24 hours" });

/** Media types of the bodies that a method takes; RFC 7396 names the one of a merge patch. */
const BODY_TYPES: Readonly<Partial<Record<HttpMethod, readonly string[]>>> = {
  POST: ["application/json"],
  PATCH: ["application/json", "application/merge-patch+json"],
};

/** The OpenAPI 3.1 document of the REST API, made from the same contracts as the procedures. */
export function openApiDocument(serverUrl: string) {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {};
  for (const contract of contracts) {
    paths[contract.path] = {
      ...paths[contract.path],
      [contract.method.toLowerCase()]: operationOf(contract),
    };
  }
  const document: ZodOpenApiObject = {
    openapi: "3.1.0",
    info: {
      title: "Millrace API",
      version: "1",
      description: DESCRIPTION,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: serverUrl }],
    security: [{ apiKey: [] }],
    tags: [...new Set(contracts.map((contract) => contract.tag))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: { apiKey: { type: "http", scheme: "bearer", description: "An API key" } },
    },
  };
  const created = createDocument(document, { override: plainer });
  openReferences(created.components?.schemas);
  return created;
}

/** The document as it is committed for generators of clients. */
export function openApiText(): string {
  return `${JSON.stringify(openApiDocument(DEFAULT_SERVER_URL), null, 2)}\n`;
}

/**
 * Leaves out what zod says and readers do not need: the pattern behind a named format, the range of
 * JavaScript's whole numbers, and that answers have no further fields: they will. The end of a tuple
 * is its number of items, since generators of clients read no schema that is `false`.
 */
const plainer: NonNullable<CreateDocumentOptions["override"]> = ({ jsonSchema, io }) => {
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.items === false && Array.isArray(jsonSchema.prefixItems)) {
    jsonSchema.items = {};
    jsonSchema.minItems = jsonSchema.prefixItems.length;
    jsonSchema.maxItems = jsonSchema.prefixItems.length;
  }
  if (io === "output" && jsonSchema.additionalProperties === false) {
    delete jsonSchema.additionalProperties;
  }
};

/**
 * zod repeats `additionalProperties` beside the reference to an object whose description differs, where overrides do not
 * come. There it would forbid every field of that object.
 */
function openReferences(node: unknown): void {
  if (typeof node !== "object" || node === null) return;
  if ("$ref" in node && "additionalProperties" in node) delete node.additionalProperties;
  for (const child of Object.values(node)) openReferences(child);
}

/** `if_match` is the header `If-Match`. */
export function headerName(field: string): string {
  const words = field.split("_").map((word) => word[0]?.toUpperCase() + word.slice(1));
  return words.join("-").replace("-Id", "-ID");
}

function operationOf(contract: Contract): ZodOpenApiOperationObject {
  const headers = Object.fromEntries(
    Object.entries(contract.headers).map(([field, schema]) => [headerName(field), schema]),
  );
  const isPost = contract.method === "POST";
  const bodyTypes = BODY_TYPES[contract.method] ?? [];
  const hasBody = Object.keys(contract.body).length > 0;
  const body = bodyOf(contract);
  const example = contract.example && { example: contract.example };
  return {
    operationId: contract.name,
    summary: contract.summary,
    ...(contract.description !== undefined && { description: contract.description }),
    tags: [contract.tag],
    requestParams: {
      path: z.object({ ...contract.params }),
      query: z.object({ ...contract.query }),
      header: z.object({ ...headers, ...(isPost && { "Idempotency-Key": idempotencyKey }) }),
    },
    ...(hasBody && {
      requestBody: {
        required: true,
        content: Object.fromEntries(bodyTypes.map((type) => [type, { schema: body, ...example }])),
      },
    }),
    responses: {
      ...successesOf(contract),
      default: {
        description: "Error",
        content: { "application/problem+json": { schema: Problem } },
      },
    },
  };
}

/** Bodies by contract: a schema with a name is registered once. */
const BODIES = new Map<Contract, z.ZodType>();

/** The request's body under a name, such as `ClusterCreateRequest`, for generators of clients. */
function bodyOf(contract: Contract): z.ZodType {
  const known = BODIES.get(contract);
  if (known) return known;
  const words = contract.name.split(".").map((word) => `${word[0]?.toUpperCase()}${word.slice(1)}`);
  const body = z.strictObject({ ...contract.body }).meta({ id: `${words.join("")}Request` });
  BODIES.set(contract, body);
  return body;
}

function successesOf(contract: Contract) {
  const answers = contract.answers ?? { [contract.successStatus]: contract.response };
  return Object.fromEntries(
    Object.entries(answers).map(([status, schema]) => [
      status,
      successOf(contract, status, schema),
    ]),
  );
}

function successOf(contract: Contract, status: string, schema: z.ZodType) {
  if (status === "204") return { description: "Done" };
  const mediaTypes = contract.stream ?? [contract.text ?? "application/json"];
  const location = z.string().meta({ description: "Path of the operation" });
  return {
    description: status === "202" ? "Accepted" : "Success",
    ...(status === "202" && { headers: z.object({ Location: location }) }),
    content: Object.fromEntries(mediaTypes.map((type) => [type, { schema }])),
  };
}
