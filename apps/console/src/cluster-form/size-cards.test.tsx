import { MantineProvider } from "@mantine/core";
import { CLUSTER_PROVIDERS } from "@millrace/domain";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { KNOB_WORDS } from "../tuning/knobs.ts";
import { SizeCards } from "./size-cards.tsx";

test.each(CLUSTER_PROVIDERS)(
  "on %s the caches have the names that Tuning gives them",
  (provider) => {
    const text = renderToStaticMarkup(
      <MantineProvider>
        <SizeCards value="dev" provider={provider} monthly={() => undefined} onChange={() => {}} />
      </MantineProvider>,
    );
    expect(text).toContain(`${KNOB_WORDS.wal_cache_bytes.title} 256 MiB`);
    expect(text).toContain(`${KNOB_WORDS.block_cache_bytes.title} 128 MiB`);
    expect(text).not.toMatch(/tail cache|catch-up cache/i);
  },
);

test("a cluster that exists is not promised another write-ahead log", () => {
  const text = renderToStaticMarkup(
    <MantineProvider>
      <SizeCards
        value="dev"
        provider="local"
        monthly={() => undefined}
        onChange={() => {}}
        walBytes={256 * 1024 ** 2}
      />
    </MantineProvider>,
  );
  expect(text.match(/Write-ahead log [^<]*/g)).toEqual(Array(3).fill("Write-ahead log 256 MiB"));
});
