import { forward } from "../../../../../../api/forward.ts";

export const dynamic = "force-dynamic";

/** A download; what pages show goes over tRPC. */
export { forward as GET };
