import { Flex, Group, Loader, Text, ThemeIcon } from "@mantine/core";
import type { Operation } from "@millrace/contract";
import {
  IconAlertTriangle,
  IconCheck,
  IconCircleDashed,
  IconPlayerSkipForward,
} from "@tabler/icons-react";

type Step = Operation["steps"][number];

/** An operation's steps with their states. */
export function StepList({ operation: { steps, done } }: { operation: Operation }) {
  return (
    <Flex
      component="ol"
      direction={done ? "row" : "column"}
      wrap="wrap"
      rowGap="xs"
      columnGap="lg"
      m={0}
      p={0}
    >
      {steps.map((step) => (
        <StepLine key={step.name} step={step} />
      ))}
    </Flex>
  );
}

/** An approval is waited for in one attempt and found in the next: that is no retry. */
function StepLine({ step }: { step: Step }) {
  return (
    <Group component="li" gap="sm" wrap="nowrap" data-step={step.name} data-state={step.state}>
      <StepIcon state={step.state} />
      <Text fz="sm" fw={step.state === "RUNNING" ? 600 : 400}>
        {step.title}
      </Text>
      {step.attempt > 1 && step.name !== "approve" && (
        <Text fz="xs" className="quiet">
          attempt {step.attempt}
        </Text>
      )}
      {step.message && (
        <Text fz="xs" className="quiet" truncate>
          {step.message}
        </Text>
      )}
    </Group>
  );
}

function StepIcon({ state }: { state: Step["state"] }) {
  if (state === "RUNNING") return <Loader size={20} type="oval" role="img" aria-label="running" />;
  const [color, Icon] = {
    PENDING: ["gray", IconCircleDashed] as const,
    SUCCEEDED: ["green", IconCheck] as const,
    SKIPPED: ["gray", IconPlayerSkipForward] as const,
    FAILED: ["red", IconAlertTriangle] as const,
  }[state];
  return (
    <ThemeIcon
      size={20}
      radius="xl"
      variant="light"
      color={color}
      aria-label={state.toLowerCase()}
      role="img"
    >
      <Icon size={13} />
    </ThemeIcon>
  );
}
