"use client";

import { notifications } from "@mantine/notifications";
import { useEffect } from "react";
import { ssoRefusalText } from "./sso-refusal-text.ts";

/** Says why a confirmation at the identity provider failed, on the page that it was started from. */
export function SsoNotice() {
  useEffect(() => {
    const url = new URL(window.location.href);
    const message = ssoRefusalText(url.searchParams.get("sso"));
    if (message === undefined) return;
    url.searchParams.delete("sso");
    window.history.replaceState(null, "", url);
    notifications.show({ color: "red", autoClose: false, message });
  }, []);
  return null;
}
