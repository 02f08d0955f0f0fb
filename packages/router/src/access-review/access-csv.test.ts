import type { Access } from "@millrace/contract";
import { expect, test } from "vitest";
import { accessCsv } from "./access-csv.ts";

const KEY: Access = {
  ...{ kind: "api_key", id: "key_1", name: "deploy", role: "operator", custom_role: null },
  ...{ permissions: ["topic:read", "topic:write"], created_at: "2026-11-23T10:00:00.000Z" },
  ...{ last_used_at: null, expires_at: null, second_factor: null, sign_in: [], disabled: false },
  domains: [],
  findings: ["never_used"],
};

function named(name: string): string {
  return accessCsv([{ ...KEY, name }], true).split("\r\n")[1] ?? "";
}

test("has a header, and a line for each way in", () => {
  expect(accessCsv([KEY], true)).toBe(
    "kind,id,name,role,custom_role,permissions,created_at,last_used_at,expires_at,second_factor,sign_in,domains,disabled,findings,complete\r\n" +
      "api_key,key_1,deploy,operator,,topic:read topic:write,2026-11-23T10:00:00.000Z,,,,,,false,never_used,true\r\n",
  );
});

test.each(["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])("%j is no formula", (name) => {
  expect(named(name)).toMatch(/^api_key,key_1,"?'/);
});

test("commas and quotes stay in their cell", () => {
  expect(named('a,"b"')).toContain('key_1,"a,""b""",operator');
  expect(named('=HYPERLINK("x","y")')).toContain(`key_1,"'=HYPERLINK(""x"",""y"")",operator`);
});

test("each line says whether the export is complete", () => {
  const [, ...lines] = accessCsv([KEY, KEY], false).trimEnd().split("\r\n");
  expect(lines.map((line) => line.endsWith(",false"))).toEqual([true, true]);
});

test("a custom role stands beside the built-in role that bounds it", () => {
  const custom_role = { id: "rol_1", name: "=auditor" };
  expect(accessCsv([{ ...KEY, custom_role }], true)).toContain(
    ",deploy,operator,'=auditor,topic:read",
  );
});

test("single sign-on has its domains", () => {
  const sso = { ...KEY, kind: "single_sign_on" as const, domains: ["a.example", "b.example"] };
  expect(accessCsv([sso], true)).toContain(",a.example b.example,false,");
});
