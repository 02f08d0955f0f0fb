"use client";

import { ActionIcon, Menu, useMantineColorScheme } from "@mantine/core";
import { IconDeviceDesktop, IconMoon, IconSun, IconSunMoon } from "@tabler/icons-react";

const CHOICES = [
  ["light", "Light", IconSun],
  ["dark", "Dark", IconMoon],
  ["auto", "System", IconDeviceDesktop],
] as const;

/** Light, dark or as the system has it; kept by the browser. */
export function ColorSchemeMenu() {
  const { setColorScheme } = useMantineColorScheme();
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="lg" aria-label="Color scheme">
          <IconSunMoon size={20} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {CHOICES.map(([scheme, label, Icon]) => (
          <Menu.Item
            key={scheme}
            leftSection={<Icon size={16} />}
            onClick={() => setColorScheme(scheme)}
          >
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
