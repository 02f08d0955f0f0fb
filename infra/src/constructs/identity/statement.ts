/** One statement of an IAM policy, in AWS's own words. */
export interface Statement {
  readonly Sid: string;
  readonly Effect: "Allow" | "Deny";
  readonly Principal?: "*" | Readonly<Record<string, string>>;
  readonly Action: readonly string[];
  readonly Resource: readonly string[];
  readonly Condition?: Readonly<
    Record<string, Readonly<Record<string, string | readonly string[]>>>
  >;
}

/** The text of a policy with these statements. Tokens inside stay Terraform's to fill in. */
export function policyText(statements: readonly Statement[]): string {
  return JSON.stringify({ Version: "2012-10-17", Statement: statements });
}
