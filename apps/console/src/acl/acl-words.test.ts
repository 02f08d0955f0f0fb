import type { Acl } from "@millrace/contract";
import { expect, test } from "vitest";
import { aclWords } from "./acl-words.ts";

const ACL: Acl = {
  principal: "User:alice",
  resource_type: "topic",
  resource_name: "orders",
  pattern_type: "literal",
  operation: "write",
  permission: "allow",
  host: "*",
};

test.each<[Partial<Acl>, string]>([
  [{}, "Allow write on topic orders to User:alice"],
  [{ pattern_type: "prefixed" }, "Allow write on topic orders… to User:alice"],
  [{ resource_name: "*" }, "Allow write on every topic to User:alice"],
  [
    { permission: "deny", operation: "describe_configs", host: "10.0.0.1" },
    "Deny describe configs on topic orders to User:alice from 10.0.0.1",
  ],
  [
    { resource_type: "transactional_id", resource_name: "tx" },
    "Allow write on transactional ID tx to User:alice",
  ],
  [
    { resource_type: "cluster", resource_name: "kafka-cluster", operation: "create" },
    "Allow create on cluster to User:alice",
  ],
])("%j", (change, words) => {
  expect(aclWords({ ...ACL, ...change })).toBe(words);
});
