"use client";

import { Code, Group, Text } from "@mantine/core";
import { CopyIcon } from "../shell/copy-icon.tsx";

interface BootstrapAddressProps {
  address: string;
  /** What follows the words "Bootstrap servers", such as `without TLS`. */
  kind?: string;
}

/** The bootstrap address with a copy button. */
export function BootstrapAddress({ address, kind }: BootstrapAddressProps) {
  const of = kind === undefined ? "" : `, ${kind}`;
  return (
    <Group gap="xs" wrap="nowrap">
      <Text fz="sm" className="quiet">
        Bootstrap servers{of}
      </Text>
      <Code fz="sm" data-bootstrap>
        {address}
      </Code>
      <CopyIcon text={address} label={`Copy bootstrap servers${of}`} />
    </Group>
  );
}
