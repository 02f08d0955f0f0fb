import type { Contract } from "@millrace/contract";
import { DomainError, type FieldError, validationFailed } from "@millrace/domain";
import { headerName } from "@millrace/router";
import type { HonoRequest } from "hono";
import { assertShallow } from "../json-depth.ts";

/**
 * The flat input of a contract, gathered from path, query, headers and body. A field is taken only
 * from the part that the contract names for it: a body cannot say which cluster is meant. Throws
 * `validation_failed` for fields that the part does not have.
 */
export async function readInput(
  contract: Contract,
  request: HonoRequest,
  body: string,
): Promise<Record<string, unknown>> {
  const errors: FieldError[] = [];
  const query = readQuery(request, errors);
  const fields = readBody(contract, request, body);
  for (const [part, given] of [
    [contract.query, query],
    [contract.body, fields],
  ] as const) {
    for (const name of Object.keys(given)) {
      if (!Object.hasOwn(part, name)) errors.push(unknownField(name));
    }
  }
  if (errors.length > 0) throw validationFailed(errors);
  return { ...fields, ...query, ...readHeaders(contract, request), ...request.param() };
}

function readQuery(request: HonoRequest, errors: FieldError[]): Record<string, string> {
  const query: Record<string, string> = {};
  for (const [name, values] of Object.entries(request.queries())) {
    if (values.length > 1) {
      errors.push({ pointer: pointerTo(name), code: "repeated", message: "must not be repeated" });
    }
    query[name] = values[0] ?? "";
  }
  return query;
}

function readHeaders(contract: Contract, request: HonoRequest): Record<string, string> {
  const fields = Object.keys(contract.headers).flatMap((field) => {
    const header = request.header(headerName(field));
    const value = field === "if_match" ? strongTag(header) : header;
    return value === undefined ? [] : [[field, value] as const];
  });
  return Object.fromEntries(fields);
}

/**
 * The entity tag as we made it. Compression marks it as weak (`W/"…"`), since its bytes differ from
 * the plain ones; our tags stand for the resource's version, which is the same in every encoding.
 */
export function strongTag(tag: string | undefined): string | undefined {
  return tag?.replace(/^W\//, "");
}

function readBody(contract: Contract, request: HonoRequest, body: string): Record<string, unknown> {
  if (body === "" && Object.keys(contract.body).length === 0) return {};
  const mediaType = request.header("content-type")?.split(";")[0]?.trim().toLowerCase();
  const isPatch = contract.method === "PATCH" && mediaType === "application/merge-patch+json";
  if (mediaType !== "application/json" && !isPatch) {
    throw malformed("must be JSON, with Content-Type: application/json");
  }
  assertShallow(body);
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (cause) {
    throw malformed("must be JSON", cause);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw malformed("must be a JSON object");
  }
  return value as Record<string, unknown>;
}

function malformed(message: string, cause?: unknown): DomainError {
  const fields = [{ pointer: "", code: "malformed", message }];
  return new DomainError("validation_failed", `The body ${message}.`, { fields, cause });
}

function unknownField(name: string): FieldError {
  return {
    pointer: pointerTo(name),
    code: "unknown_field",
    message: "is not a field of this request",
  };
}

/** RFC 6901. */
function pointerTo(name: string): string {
  return `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
