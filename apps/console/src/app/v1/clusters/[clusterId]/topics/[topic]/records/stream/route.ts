import { forward } from "../../../../../../../../api/forward.ts";

export const dynamic = "force-dynamic";

/** The live tail; everything else goes over tRPC. */
export { forward as GET };
