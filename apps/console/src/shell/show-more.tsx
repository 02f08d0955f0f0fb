import { Button, Group } from "@mantine/core";

interface ShowMoreProps {
  /** Whether the next page is on its way. */
  loading?: boolean;
  onClick: () => void;
}

/** The end of a list that has another page. */
export function ShowMore({ loading = false, onClick }: ShowMoreProps) {
  return (
    <Group justify="center" p="md">
      <Button variant="default" loading={loading} onClick={onClick}>
        Show more
      </Button>
    </Group>
  );
}
