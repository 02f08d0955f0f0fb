import { isLater, list, record } from "../document.ts";
import { each, type PolicyRule } from "../rule.ts";

const SECRET_NAME = /(SECRET|PASSWORD|TOKEN|PRIVATE_KEY|DATABASE_URL)$/;

/** No stack, plan or state contains a secret: AWS or the machine that needs it generates it. */
export const plainSecrets: PolicyRule = {
  name: "plain-secrets",
  check: (document) => [
    ...each(document, ["aws_db_instance"], ({ values }) =>
      typeof values.password === "string" && !isLater(values.password)
        ? "use manage_master_user_password instead of password"
        : undefined,
    ),
    ...each(document, ["aws_secretsmanager_secret_version"], ({ values }) =>
      // A write-only value reads as empty text.
      typeof values.secret_string === "string" &&
      values.secret_string !== "" &&
      !isLater(values.secret_string)
        ? "remove secret_string: the owner of the secret writes its value"
        : undefined,
    ),
    ...each(document, ["aws_ecs_task_definition"], ({ values }) =>
      containers(values.container_definitions).flatMap((container) =>
        list(container.environment)
          .map((variable) => String(record(variable)?.name))
          .filter((name) => SECRET_NAME.test(name))
          .map((name) => `pass ${name} by secrets, not by environment`),
      ),
    ),
  ],
};

function containers(definitions: unknown): Record<string, unknown>[] {
  if (typeof definitions !== "string") return [];
  try {
    return list(JSON.parse(definitions)).map((container) => record(container) ?? {});
  } catch {
    return [];
  }
}
