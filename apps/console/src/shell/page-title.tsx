/**
 * The page's title in the browser. React moves the element into the head and updates it together with the page. Next sends
 * titles from metadata after the page, which has no title until then.
 */
export function PageTitle({ children }: { children: string }) {
  return <title>{`${children} · Millrace`}</title>;
}
