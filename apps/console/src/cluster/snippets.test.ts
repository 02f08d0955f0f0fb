import { expect, test } from "vitest";
import { snippetsFor } from "./snippets.ts";

const plain = snippetsFor({ bootstrap: "localhost:9092", tls: false });
const secure = snippetsFor({ bootstrap: "localhost:9093", tls: true });

test.each([
  ["without TLS", plain],
  ["with TLS", secure],
])(
  "each snippet %s has a topic of its own: it reads back what it wrote, not another's record",
  (_name, snippets) => {
    const topics = snippets.map(({ code }) => new Set(code.match(/hello-[a-z]+/g)));
    expect(topics.map(({ size }) => size)).toEqual([1, 1, 1, 1]);
    expect(new Set(topics.flatMap((names) => [...names])).size).toBe(4);
  },
);

test("snippets with TLS name the CA, the mechanism and both credentials; others name none", () => {
  for (const { code } of secure) {
    expect(code).toContain("ca.pem");
    expect(code).toMatch(/scram-sha-512/i);
    expect(code).toMatch(/\bUSER\b/);
    expect(code).toMatch(/\bPASSWORD\b/);
  }
  for (const { code } of plain) expect(code).not.toMatch(/ca\.pem|scram|PASSWORD/i);
});
