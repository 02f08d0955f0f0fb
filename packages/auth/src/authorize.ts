import {
  allows,
  allowsImpersonated,
  DomainError,
  grants,
  mayDo,
  type Permission,
  type Principal,
  STEP_UP_MINUTES,
} from "@millrace/domain";

/** Throws `forbidden` unless the principal's role, and its key's own permissions, grant it. */
export function authorize(principal: Principal, permission: Permission): void {
  if (mayDo(principal, permission)) return;
  if (principal.keyLimits?.permissions && allows(principal.role, permission)) {
    throw new DomainError("forbidden", `This API key does not have the permission ${permission}.`, {
      remedy: "Use another key.",
    });
  }
  if (principal.impersonation && grants(principal, permission)) {
    const writeAccessHelps = allowsImpersonated({ mayWrite: true }, permission);
    throw new DomainError("forbidden", `This impersonation does not grant ${permission}.`, {
      remedy: writeAccessHelps
        ? "Begin an impersonation with write access."
        : "Ask a member of the organization to do this.",
    });
  }
  const { name } = principal.customRole ?? { name: principal.role };
  throw new DomainError("forbidden", `The role ${name} does not grant ${permission}.`, {
    remedy: "Ask an owner of the organization for another role.",
  });
}

/**
 * Throws `reauthentication_required` where a person last proved too long ago who they are: a browser that is
 * left alone, or a stolen cookie, does not destroy or grant anything.
 */
export function assertRecentProof({ session }: Pick<Principal, "session">, now: Date): void {
  if (!session) return;
  if (now.getTime() - session.authenticatedAt.getTime() <= STEP_UP_MINUTES * 60_000) return;
  throw new DomainError("reauthentication_required", "Confirm your identity to do this.", {
    remedy: `Enter your password again. The confirmation is valid for ${STEP_UP_MINUTES} minutes.`,
  });
}
