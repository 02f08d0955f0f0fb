import { Aspects, type IAspect, TerraformResource, type TerraformStack } from "cdktn";
import type { IConstruct } from "constructs";

export type Tags = Readonly<Record<string, string>>;

/** The tag that holds a resource's address in its stack. */
export const ADDRESS_TAG = "millrace:address";

interface Taggable extends TerraformResource {
  tags?: Record<string, string>;
  readonly tagsInput?: Record<string, string>;
}

function isTaggable(node: IConstruct): node is Taggable {
  return TerraformResource.isTerraformResource(node) && "tagsInput" in node;
}

class TagEverything implements IAspect {
  readonly tags: Tags;

  constructor(tags: Tags) {
    this.tags = tags;
  }

  visit(node: IConstruct): void {
    if (!isTaggable(node)) return;
    const address = `${node.terraformResourceType}.${node.friendlyUniqueId}`;
    node.tags = { ...this.tags, ...node.tagsInput, [ADDRESS_TAG]: address };
  }
}

/**
 * Gives every taggable resource of `stack` these tags, any of its own, and its address. A sweep uses the address to
 * find resources that a killed Terraform created but did not record.
 */
export function tagEverything(stack: TerraformStack, tags: Tags): void {
  Aspects.of(stack).add(new TagEverything(tags));
}
