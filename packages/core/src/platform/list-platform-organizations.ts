import type { Database, PlatformOrganization } from "@millrace/db";
import type { SessionId } from "@millrace/domain";

/** Organizations on one page of a platform operator's list. */
const PAGE_SIZE = 100;

/** All organizations with the health of their clusters, by id, those after `after`. */
export async function listPlatformOrganizations(
  { platform }: Pick<Database, "platform">,
  sessionId: SessionId,
  after: string,
): Promise<{ items: PlatformOrganization[]; next: string | undefined }> {
  const found = await platform.organizations(sessionId, after, PAGE_SIZE + 1);
  const items = found.slice(0, PAGE_SIZE);
  return { items, next: found.length > PAGE_SIZE ? items.at(-1)?.id : undefined };
}
