import { Empty } from "./empty.tsx";

/** Shown instead of a page whose permission the role does not grant. `to` completes the sentence: "read API keys". */
export function NoPermission({ to }: { to: string }) {
  return <Empty title="No permission" text={`Your role does not allow you to ${to}.`} />;
}
