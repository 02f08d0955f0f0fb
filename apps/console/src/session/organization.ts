/** Which of a person's organizations the console shows: the API reads it from this cookie. */
const COOKIE = "millrace-organization";

/** Shows another organization, from its list of clusters on. */
export function enterOrganization(id: string): void {
  chooseOrganization(id);
  window.location.assign("/clusters");
}

export function chooseOrganization(id: string): void {
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is missing on plain HTTP
  document.cookie = `${COOKIE}=${encodeURIComponent(id)}; path=/; samesite=lax`;
}
