import type { Broker } from "@millrace/contract";
import { describe, expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { localCluster } from "../cluster/cluster.fixture.ts";
import { contactText, leadersText, loadText, walLeftText, walPercent } from "./broker-words.ts";
import { BrokerTable, Events } from "./brokers-page.tsx";
import { restartText } from "./restart-button.tsx";

function broker(more: Partial<Broker> = {}): Broker {
  return {
    ...{ broker_id: 1, state: "active", zone: "local-a", version: "0.1.0", uptime_seconds: 5 },
    ...{ leaders: 4, moving: 0, load: null, control_link: "connected", last_heard_at: null },
    wal: {
      ...{ capacity_bytes: "1000", used_bytes: "250", upload_pending_bytes: "0" },
      ...{ uploads_wait_for: null, seconds_left: 86_400 },
    },
    ...more,
  } as Broker;
}

const several = { ...localCluster(), spec: { ...localCluster().spec, brokers: 2 } };

describe("the table of brokers", () => {
  function rendered(role: "viewer" | "operator", ...brokers: Broker[]): string {
    const api = new FakeApi();
    api.signIn(role);
    return api.render(<BrokerTable cluster={several} brokers={brokers} />);
  }

  test("has state, zone, partitions and how full the log is", () => {
    const html = rendered("viewer", broker(), broker({ broker_id: 2, state: "fenced", wal: null }));
    for (const text of ["Active", "local-a", "Not heard from", "250", "0.1.0"]) {
      expect(html).toContain(text);
    }
  });

  test("offers a restart to whoever may change the cluster", () => {
    expect(rendered("viewer", broker())).not.toContain("Restart");
    expect(rendered("operator", broker())).toContain("Restart");
  });
});

test("a broker in words", () => {
  expect(walPercent(broker())).toBe(25);
  expect(walPercent(broker({ wal: null }))).toBeUndefined();
  expect(leadersText(broker({ moving: 2 }))).toBe("4, 2 moving");
  expect(leadersText(broker({ leaders: null, moving: null }))).toBe("all");
  expect(loadText(broker())).toBe("–");
  expect(loadText(broker({ load: "1048576" }))).toBe("1 MiB/s");
  expect(walLeftText(broker())).toBeUndefined();
  const { wal } = broker();
  const busy = broker({ wal: wal && { ...wal, seconds_left: 240 } });
  expect(walLeftText(busy)).toBe("Full in 4 min if uploads stop");
  expect(contactText(broker({ control_link: "never" }))).toBe("never");
});

test("a restart says what clients notice", () => {
  expect(restartText(localCluster(), 0)).toContain("disconnected");
  expect(restartText(several, 1)).toContain("redirected");
  expect(restartText(several)).toContain("the next one waits");
});

test("events are told in the brokers' words, newest first", () => {
  const event = (text: string) => ({
    at: "2026-11-28T07:00:00.000Z",
    kind: "left",
    broker_id: 2,
    text,
  });
  const html = new FakeApi().render(
    <Events events={[event("Node 2 left."), event("Node 2 joined.")]} />,
  );
  expect(html.indexOf("Node 2 left.")).toBeLessThan(html.indexOf("Node 2 joined."));
});
