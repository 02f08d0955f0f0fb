import { ANY_CLUSTER_PREFIX, type Statement } from "./document.ts";
import { actions, namedArns } from "./granted.ts";

/** The database that several brokers of a cluster share. */
export function metadataStatements(accountId: string): Statement[] {
  const reads = actions("rds", "read");
  const isDescribing = (action: string) => action.startsWith("rds:Describe");
  return [
    // The provider looks for an instance by an id that its ARN does not have.
    {
      Sid: "FindDatabases",
      Effect: "Allow",
      Action: reads.filter(isDescribing),
      Resource: `arn:aws:rds:*:${accountId}:*`,
    },
    {
      Sid: "Databases",
      Effect: "Allow",
      Action: [
        ...reads.filter((action) => !isDescribing(action)),
        ...actions("rds", "change"),
      ].sort(),
      Resource: namedArns("database", accountId),
    },
    {
      // Terraform gives a database the password that its secret holds. Brokers' other credentials it cannot read.
      Sid: "PasswordsOfDatabases",
      Effect: "Allow",
      Action: "secretsmanager:GetSecretValue",
      Resource: `arn:aws:secretsmanager:*:${accountId}:secret:${ANY_CLUSTER_PREFIX}/metadata-*`,
    },
  ];
}
