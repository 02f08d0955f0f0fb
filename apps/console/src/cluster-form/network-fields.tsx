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
          <Radio value="new" label="New VPC without internet access" />
          <Radio value="existing" label="Private subnets of an existing VPC" />
        </Stack>
      </Radio.Group>
      {network.vpc === "new" ? (
        <TextInput
          label="Address range"
          description="IPv4 CIDR; must not overlap with networks you will peer with. Empty: one that none of your other clusters uses"
          placeholder="10.40.0.0/16"
          maw={320}
          value={network.cidr}
          error={errors["/network/cidr"]}
          onChange={(event) => set({ cidr: event.currentTarget.value })}
        />
      ) : (
        <ExistingVpc network={network} errors={errors} set={set} />
      )}
      <Radio.Group
        label="Access"
        value={network.access}
        onChange={(access) => set({ access: access as NetworkDraft["access"] })}
      >
        <Stack gap={6} mt={6}>
          <Radio value="private" label="Clients in the VPC and connected networks" />
          <Radio value="endpoint_service" label="Also other accounts, through PrivateLink" />
        </Stack>
      </Radio.Group>
      {network.access === "endpoint_service" && (
        <TagsInput
          label="Allowed principals"
          description={`ARNs of accounts, users or roles; at most ${ALLOWED_PRINCIPALS_MAX}. Press Enter after each`}
          maxTags={ALLOWED_PRINCIPALS_MAX}
          value={network.allowedPrincipals}
          error={errorUnder(errors, "/network/allowed_principals")}
          onChange={(allowedPrincipals) => set({ allowedPrincipals })}
        />
      )}
      <TagsInput
        label="Allowed address ranges"
        description={`In addition to the VPC; at most ${ALLOWED_CIDRS_MAX}. Press Enter after each`}
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
        label="VPC ID"
        placeholder="vpc-0123456789abcdef0"
        value={network.vpcId}
        error={errors["/network/vpc_id"]}
        onChange={(event) => set({ vpcId: event.currentTarget.value })}
      />
      <TagsInput
        label="Subnet IDs"
        description="One per zone, in zone order. Press Enter after each"
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
