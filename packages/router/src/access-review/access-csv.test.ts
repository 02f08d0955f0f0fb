import type { Access } from "@millrace/contract";
import { expect, test } from "vitest";
import { accessCsv } from "./access-csv.ts";

const KEY: Access = {
  ...{ kind: "api_key", id: "key_1", name: "deploy", role: "operator", custom_role: null },
  ...{ permissions: ["topic:read", "topic:write"], created_at: "2026-11-23T10:00:00.000Z" },
  ...{ last_used_at: null, expires_at: null, second_factor: null, sign_in: [], disabled: false },
  findings: ["never_used"],
};

function named(name: string): string {
  return accessCsv([{ ...KEY, name }]).split("\r\n")[1] ?? "";
}

test("has a header, and a line for each way in", () => {
  expect(accessCsv([KEY])).toBe(
    "kind,id,name,role,permissions,created_at,last_used_at,expires_at,second_factor,sign_in,disabled,findings\r\n" +
      "api_key,key_1,deploy,operator,topic:read topic:write,2026-11-23T10:00:00.000Z,,,,,false,never_used\r\n",
  );
});

test.each(["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])("%j is no formula", (name) => {
  expect(named(name)).toMatch(/^api_key,key_1,"?'/);
});

test("commas and quotes stay in their cell", () => {
  expect(named('a,"b"')).toContain('key_1,"a,""b""",operator');
  expect(named('=HYPERLINK("x","y")')).toContain(`key_1,"'=HYPERLINK(""x"",""y"")",operator`);
});

test("a custom role goes by its name", () => {
  const custom_role = { id: "rol_1", name: "=auditor" };
  expect(accessCsv([{ ...KEY, custom_role }])).toContain(",deploy,'=auditor,");
});
