import { Stack } from "@mantine/core";
import { SecurityPage } from "../../account/security-page.tsx";
import { OrganizationList } from "../../platform/organization-list.tsx";
import { PlatformFrame } from "../../platform/platform-frame.tsx";
import { ProofDialog } from "../../session/proof-dialog.tsx";
import { PageTitle } from "../../shell/page-title.tsx";

export default function PlatformPage() {
  return (
    <PlatformFrame>
      <PageTitle>Organizations</PageTitle>
      <Stack gap="xl">
        <OrganizationList />
        <SecurityPage />
      </Stack>
      <ProofDialog />
    </PlatformFrame>
  );
}
