const TYPE = "aws_s3_object";

/** As much of the stack, and of `terraform show -json`, as is looked at. */
interface Stack {
  readonly resource: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  removed?: readonly unknown[];
}
interface State {
  readonly values?: {
    readonly root_module: {
      readonly resources?: readonly { readonly address: string; readonly type: string }[];
    };
  };
}

/**
 * The stack with word that the broker builds of the state that it does not hold are to be let go,
 * and not deleted. Every cluster is made with one build and names it until its next change: an
 * instance that AWS replaces in between fetches that one.
 *
 * @param state what `terraform show -json` says
 */
export function keepingEarlierBuilds(stack: string, state: string): string {
  const document = JSON.parse(stack) as Stack;
  const present = Object.keys(document.resource[TYPE] ?? {}).map((name) => `${TYPE}.${name}`);
  const { values } = JSON.parse(state) as State;
  const earlier = (values?.root_module.resources ?? []).filter(
    ({ type, address }) => type === TYPE && !present.includes(address),
  );
  if (earlier.length === 0) return stack;
  document.removed = earlier.map(({ address }) => ({
    from: address,
    lifecycle: { destroy: false },
  }));
  return JSON.stringify(document, null, 2);
}
