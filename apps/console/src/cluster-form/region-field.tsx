"use client";

import { Select } from "@mantine/core";
import { REGIONS, type Region, regionFacts } from "@millrace/domain";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";

/** Where the cluster runs: this machine, or a region of AWS. */
export function RegionField(props: {
  value: Region;
  error: string | undefined;
  onChange: (region: Region) => void;
}) {
  const { value, error, onChange } = props;
  const available = useRegionAvailable(value);
  const hasLocal = useRegionAvailable("local");
  const awsRegion = useAwsRegion();
  const options = (provider: "local" | "aws") =>
    REGIONS.filter((region) => regionFacts(region).provider === provider).map((region) => ({
      value: region,
      label:
        region === "local" ? regionFacts(region).title : `${regionFacts(region).title} · ${region}`,
    }));
  return (
    <Select
      label="Region"
      description={describe(value, available, awsRegion)}
      data={[
        ...(hasLocal ? [{ group: "Local", items: options("local") }] : []),
        { group: "Amazon Web Services", items: options("aws") },
      ]}
      allowDeselect={false}
      value={value}
      error={error}
      onChange={(region) => region && onChange(region as Region)}
    />
  );
}

/** Regions and whether this installation can create clusters there; none until that is known. */
export function useRegions() {
  const trpc = useTRPC();
  return useQuery(trpc.region.list.queryOptions({})).data?.items ?? [];
}

/** Whether this installation can create clusters in the region; true until that is known. */
export function useRegionAvailable(region: Region): boolean {
  return useRegions().find(({ id }) => id === region)?.available ?? true;
}

/** The region of AWS that this installation creates clusters in; undefined where there is none. */
export function useAwsRegion(): Region | undefined {
  return useRegions().find(({ provider, available }) => provider === "aws" && available)?.id;
}

/** Why a cluster in a region of AWS can be planned, but not created. */
export function previewOnly(awsRegion: Region | undefined): string {
  if (awsRegion === undefined) return "Preview only: no AWS account configured";
  return `Preview only: this installation creates clusters in ${awsRegion}`;
}

function describe(region: Region, available: boolean, awsRegion: Region | undefined): string {
  const { provider, zones } = regionFacts(region);
  if (!available) return previewOnly(awsRegion);
  return provider === "local" ? "Runs on this machine" : zones.join(", ");
}
