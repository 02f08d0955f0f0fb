import {
  type Attributes,
  blocks,
  isSet,
  type PolicyResource,
  record,
  UNKNOWN,
} from "../document.ts";
import type { PolicyContext } from "../finding.ts";
import { each, type PolicyRule } from "../rule.ts";
import { isTaggable } from "../taggable.ts";

/** Tags by which a sweep finds what belongs to whom. */
const REQUIRED: Readonly<Record<PolicyContext["kind"], readonly string[]>> = {
  cluster: [
    "millrace:tenant",
    "millrace:cluster",
    "millrace:environment",
    "millrace:address",
    "millrace:managed-by",
  ],
  "control-plane": ["millrace:installation", "millrace:address", "millrace:managed-by"],
};
/** What an instance and its root volume carry: they have no address in the stack. */
const LAUNCHED = ["instance", "volume"] as const;

/** Everything that can carry tags carries those of its owner. */
export const requiredTags: PolicyRule = {
  name: "required-tags",
  check: (document, context) => {
    const required = REQUIRED[context.kind];
    const types = [...new Set(document.resources.map(({ type }) => type))];
    return [
      ...each(document, types.filter(isTaggable), (resource) =>
        complaint(required.filter((tag) => !hasTag(tagsOf(resource), tag))),
      ),
      ...each(document, ["aws_autoscaling_group"], ({ values }) => {
        const given = blocks(values, "tag").map((tag) => tag.key);
        return complaint(required.filter((tag) => !given.includes(tag)));
      }),
      ...each(document, ["aws_launch_template"], ({ values }) => {
        const missing = required.filter((tag) => tag !== "millrace:address");
        return LAUNCHED.flatMap((launched) => {
          const [block] = blocks(values, "tag_specifications").filter(
            (specification) => specification.resource_type === launched,
          );
          const absent = missing.filter((tag) => !hasTag(block?.tags, tag));
          return complaint(absent, ` in tag_specifications of "${launched}"`) ?? [];
        });
      }),
    ];
  },
};

function complaint(missing: readonly string[], where = ""): string | undefined {
  return missing.length === 0 ? undefined : `add ${missing.join(", ")}${where}`;
}

function tagsOf({ values }: PolicyResource): unknown {
  if (values.tags === UNKNOWN || values.tags_all === UNKNOWN) return values.tags ?? UNKNOWN;
  return { ...record(values.tags_all), ...record(values.tags) };
}

function hasTag(tags: unknown, name: string): boolean {
  if (tags === UNKNOWN) return true;
  const value = (record(tags) as Attributes | undefined)?.[name];
  return isSet(value);
}
