"use client";

import { ActionIcon, Code, CopyButton, Group, Text, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

/** Where clients connect first, ready to be copied. */
export function BootstrapAddress({ address }: { address: string }) {
  return (
    <Group gap="xs" wrap="nowrap">
      <Text fz="sm" className="quiet">
        Bootstrap servers
      </Text>
      <Code fz="sm" data-bootstrap>
        {address}
      </Code>
      <CopyButton value={address}>
        {({ copied, copy }) => (
          <Tooltip label={copied ? "Copied" : "Copy"}>
            <ActionIcon
              variant="subtle"
              color="gray"
              onClick={copy}
              aria-label="Copy the bootstrap servers"
            >
              {copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
            </ActionIcon>
          </Tooltip>
        )}
      </CopyButton>
    </Group>
  );
}
