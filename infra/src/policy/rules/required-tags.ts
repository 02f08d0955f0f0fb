import {
  CLUSTER_TAG,
  ENVIRONMENT_TAG,
  INSTALLATION_TAG,
  MANAGED,
  MANAGED_CONTROL_PLANE,
  MANAGED_TAG,
  TENANT_TAG,
} from "../../iam/document.ts";
import { ADDRESS_TAG } from "../../tagging.ts";
import { blocks, isLater, isSet, type PolicyResource, record, UNKNOWN } from "../document.ts";
import type { PolicyContext } from "../finding.ts";
import { each, type PolicyRule } from "../rule.ts";
import { isTaggable } from "../taggable.ts";

interface Required {
  /** Tags by which a sweep finds an owner's resources. */
  readonly names: readonly string[];
  /**
   * Value of the tag that distinguishes clusters' resources from the control plane's: the provisioner's role may
   * change everything with the clusters' value.
   */
  readonly managedBy: string;
}

const REQUIRED: Readonly<Record<PolicyContext["kind"], Required>> = {
  cluster: {
    names: [TENANT_TAG, CLUSTER_TAG, ENVIRONMENT_TAG, ADDRESS_TAG, MANAGED_TAG],
    managedBy: MANAGED,
  },
  "control-plane": {
    names: [INSTALLATION_TAG, ADDRESS_TAG, MANAGED_TAG],
    managedBy: MANAGED_CONTROL_PLANE,
  },
};
/** Tags of an instance and its root volume, which have no address in the stack. */
const LAUNCHED = ["instance", "volume"] as const;

/** Every taggable resource has its owner's tags. */
export const requiredTags: PolicyRule = {
  name: "required-tags",
  check: (document, context) => {
    const required = REQUIRED[context.kind];
    const launched: Required = {
      ...required,
      names: required.names.filter((tag) => tag !== ADDRESS_TAG),
    };
    const types = [...new Set(document.resources.map(({ type }) => type))];
    return [
      ...each(document, types.filter(isTaggable), (resource) =>
        complaints(required, tagsOf(resource)),
      ),
      ...each(document, ["aws_autoscaling_group"], ({ values }) =>
        complaints(
          required,
          Object.fromEntries(blocks(values, "tag").map(({ key, value }) => [String(key), value])),
        ),
      ),
      ...each(document, ["aws_launch_template"], ({ values }) =>
        LAUNCHED.flatMap((type) => {
          const [block] = blocks(values, "tag_specifications").filter(
            (specification) => specification.resource_type === type,
          );
          return complaints(launched, block?.tags, ` in tag_specifications of "${type}"`);
        }),
      ),
    ];
  },
};

function complaints({ names, managedBy }: Required, tags: unknown, where = ""): string[] {
  if (tags === UNKNOWN) return [];
  const given = record(tags) ?? {};
  const missing = names.filter((name) => !isSet(given[name]));
  const managed = given[MANAGED_TAG];
  const isOthers = isSet(managed) && !isLater(managed) && managed !== managedBy;
  return [
    ...(missing.length === 0 ? [] : [`add ${missing.join(", ")}${where}`]),
    ...(isOthers ? [`set ${MANAGED_TAG} to "${managedBy}"${where}`] : []),
  ];
}

function tagsOf({ values }: PolicyResource): unknown {
  if (values.tags === UNKNOWN || values.tags_all === UNKNOWN) return values.tags ?? UNKNOWN;
  return { ...record(values.tags_all), ...record(values.tags) };
}
