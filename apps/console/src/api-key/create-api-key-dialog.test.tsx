import { MantineProvider } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { beforeEach, expect, test, vi } from "vitest";
import { ApiKeyModal } from "./create-api-key-dialog.tsx";
import { DEFAULT_EXPIRY, expiresAt } from "./expiry.ts";

const seen = vi.hoisted(() => ({ modal: {} as Record<string, unknown> }));

/** Mantine's draws nothing without a browser. */
vi.mock("@mantine/core", async (original) => ({
  ...(await original<object>()),
  Modal: ({ children, ...props }: { children: React.ReactNode }) => {
    seen.modal = props;
    return <div role="dialog">{children}</div>;
  },
}));

beforeEach(() => {
  seen.modal = {};
});

function modal(secret: string | undefined, busy = false): string {
  return renderToStaticMarkup(
    <MantineProvider>
      <ApiKeyModal opened secret={secret} busy={busy} onClose={() => {}}>
        the form
      </ApiKeyModal>
    </MantineProvider>,
  );
}

test("Escape, a click outside and a cross cannot close a secret that is shown once", () => {
  const text = modal("mrk_secret");
  expect(text).toContain("mrk_secret");
  expect(text).toContain("Done");
  expect(seen.modal).toMatchObject({
    closeOnEscape: false,
    closeOnClickOutside: false,
    withCloseButton: false,
  });
});

test("while a key is being created nothing closes the form: its secret is on the way", () => {
  expect(modal(undefined, true)).toContain("the form");
  expect(seen.modal).toMatchObject({
    title: "Create API key",
    closeOnEscape: false,
    closeOnClickOutside: false,
    withCloseButton: false,
  });
});

test("the form before it closes as every dialog does", () => {
  expect(modal(undefined)).toContain("the form");
  expect(seen.modal).toMatchObject({ closeOnEscape: true, withCloseButton: true });
});

test("a key expires unless somebody chooses never", () => {
  const now = Date.parse("2026-11-22T12:00:00Z");
  expect(expiresAt(DEFAULT_EXPIRY, now)).toBe("2027-02-20T12:00:00.000Z");
  expect(expiresAt("never", now)).toBeUndefined();
});
