import { forward } from "../../../api/forward.ts";

export const dynamic = "force-dynamic";

export { forward as DELETE, forward as GET, forward as POST };
