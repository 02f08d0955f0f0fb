"use client";

import { ActionIcon, Code, CopyButton, Group, Text, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

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
      <CopyButton value={address}>
        {({ copied, copy }) => (
          <Tooltip label={copied ? "Copied" : "Copy"}>
            <ActionIcon
              variant="subtle"
              color="gray"
              onClick={copy}
              aria-label="Copy bootstrap servers"
            >
              {copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
            </ActionIcon>
          </Tooltip>
        )}
      </CopyButton>
    </Group>
  );
}
