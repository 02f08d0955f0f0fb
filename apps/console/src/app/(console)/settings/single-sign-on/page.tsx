import type { Metadata } from "next";
import { SingleSignOnPage } from "../../../../single-sign-on/single-sign-on-page.tsx";

export const metadata: Metadata = { title: "Single sign-on" };

export default function Page() {
  return <SingleSignOnPage />;
}
