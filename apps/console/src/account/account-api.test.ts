import { afterEach, expect, test, vi } from "vitest";
import { onProofNeeded, PROOF_NEEDED } from "../session/proof.ts";
import { post } from "./account-api.ts";

const refused = () => Response.json({ message: "Confirm.", code: PROOF_NEEDED }, { status: 403 });

afterEach(() => vi.unstubAllGlobals());

test.each([true, false])(
  "a refused change is sent again after a confirmation: %s",
  async (given) => {
    const fetched = vi.fn<typeof fetch>(async () => Response.json({ status: true }));
    fetched.mockImplementationOnce(async () => refused());
    vi.stubGlobal("fetch", fetched);
    const takeBack = onProofNeeded(async () => given);
    const reply = await post("two-factor/disable", { password: "p" });
    takeBack();
    expect(reply).toMatchObject(given ? { ok: true } : { ok: false, message: "Confirm." });
    expect(fetched).toHaveBeenCalledTimes(given ? 2 : 1);
  },
);
