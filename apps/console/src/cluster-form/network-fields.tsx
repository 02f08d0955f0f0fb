"use client";

import { Radio, SimpleGrid, Stack, TagsInput, TextInput } from "@mantine/core";
import { ALLOWED_CIDRS_MAX, ALLOWED_PRINCIPALS_MAX, ZONES_MAX } from "@millrace/domain";
import type { FieldErrors } from "./field-errors.ts";
import type { NetworkDraft } from "./network-draft.ts";

interface NetworkFieldsProps {
  network: NetworkDraft;
  errors: FieldErrors;
  onChange: (network: NetworkDraft) => void;
}

/** A VPC of the cluster's own or the tenant's, and who reaches the listeners. */
export function NetworkFields({ network, errors, onChange }: NetworkFieldsProps) {
  const set = (change: Partial<NetworkDraft>) => onChange({ ...network, ...change });
  return (
    <Stack gap="md">
      <Radio.Group
        label="VPC"
        value={network.vpc}
        onChange={(vpc) => set({ vpc: vpc as NetworkDraft["vpc"] })}
      >
        <Stack gap={6} mt={6}>
          <Radio value="new" label="A new one for this cluster, without a way to the internet" />
          <Radio value="existing" label="Private subnets of one that exists" />
        </Stack>
      </Radio.Group>
      {network.vpc === "new" ? (
        <TextInput
          label="Address range"
          description="IPv4, in CIDR notation; must not overlap with networks it is to be peered with"
          maw={320}
          value={network.cidr}
          error={errors["/network/cidr"]}
          onChange={(event) => set({ cidr: event.currentTarget.value })}
        />
      ) : (
        <ExistingVpc network={network} errors={errors} set={set} />
      )}
      <Radio.Group
        label="Reached by"
        value={network.access}
        onChange={(access) => set({ access: access as NetworkDraft["access"] })}
      >
        <Stack gap={6} mt={6}>
          <Radio value="private" label="Clients in the VPC and in networks joined to it" />
          <Radio
            value="endpoint_service"
            label="Other accounts too, through an endpoint service (PrivateLink)"
          />
        </Stack>
      </Radio.Group>
      {network.access === "endpoint_service" && (
        <TagsInput
          label="Principals that may connect"
          description={`ARNs of accounts, users or roles, at most ${ALLOWED_PRINCIPALS_MAX}; press enter after each`}
          maxTags={ALLOWED_PRINCIPALS_MAX}
          value={network.allowedPrincipals}
          error={errorUnder(errors, "/network/allowed_principals")}
          onChange={(allowedPrincipals) => set({ allowedPrincipals })}
        />
      )}
      <TagsInput
        label="Other address ranges that may connect"
        description={`Beside the VPC itself, at most ${ALLOWED_CIDRS_MAX}; press enter after each`}
        maxTags={ALLOWED_CIDRS_MAX}
        value={network.allowedCidrs}
        error={errorUnder(errors, "/network/allowed_cidrs")}
        onChange={(allowedCidrs) => set({ allowedCidrs })}
      />
    </Stack>
  );
}

function ExistingVpc({
  network,
  errors,
  set,
}: {
  network: NetworkDraft;
  errors: FieldErrors;
  set: (change: Partial<NetworkDraft>) => void;
}) {
  return (
    <SimpleGrid cols={{ base: 1, sm: 2 }}>
      <TextInput
        label="VPC id"
        placeholder="vpc-0123456789abcdef0"
        value={network.vpcId}
        error={errors["/network/vpc_id"]}
        onChange={(event) => set({ vpcId: event.currentTarget.value })}
      />
      <TagsInput
        label="Subnet ids"
        description="One in each zone, in the order of the zones; press enter after each"
        inputWrapperOrder={["label", "input", "description", "error"]}
        maxTags={ZONES_MAX}
        value={network.subnetIds}
        error={errorUnder(errors, "/network/subnet_ids")}
        onChange={(subnetIds) => set({ subnetIds })}
      />
    </SimpleGrid>
  );
}

/** A remark on a list, or the first on one of its members. */
function errorUnder(errors: FieldErrors, pointer: string): string | undefined {
  const at = Object.keys(errors).find((key) => key === pointer || key.startsWith(`${pointer}/`));
  return at === undefined ? undefined : errors[at];
}
