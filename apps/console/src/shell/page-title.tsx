/**
 * The browser's title of a page. React moves the element into the head and exchanges it with the page's
 * other content. Titles from Next's metadata come later than the page, which has none until then.
 */
export function PageTitle({ children }: { children: string }) {
  return <title>{`${children} · Millrace`}</title>;
}
