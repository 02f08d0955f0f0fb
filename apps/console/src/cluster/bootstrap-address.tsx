"use client";

import { Code, Group, Text } from "@mantine/core";
import { CopyIcon } from "../shell/copy-icon.tsx";

/** The bootstrap address with a copy button. */
export function BootstrapAddress({ address }: { address: string }) {
  return (
    <Group gap="xs" wrap="nowrap">
      <Text fz="sm" className="quiet">
        Bootstrap servers
      </Text>
      <Code fz="sm" data-bootstrap>
        {address}
      </Code>
      <CopyIcon text={address} label="Copy bootstrap servers" />
    </Group>
  );
}
