import { createTheme, type MantineColorsTuple } from "@mantine/core";

/** The water of the millrace. Shades 6 and darker carry white text at AA contrast. */
const race: MantineColorsTuple = [
  "#e6f8f7",
  "#d3eeed",
  "#a6dcda",
  "#75c9c6",
  "#4dbab6",
  "#2f9d99",
  "#0b7f7c",
  "#086a68",
  "#065755",
  "#03403f",
];

export const theme = createTheme({
  colors: { race },
  primaryColor: "race",
  primaryShade: { light: 7, dark: 6 },
  autoContrast: true,
  fontFamily: "'Inter Variable', system-ui, sans-serif",
  fontFamilyMonospace: "'JetBrains Mono Variable', ui-monospace, monospace",
  headings: { fontWeight: "650" },
  defaultRadius: "md",
  components: {
    Card: { defaultProps: { withBorder: true, padding: "lg" } },
    Modal: { defaultProps: { closeButtonProps: { "aria-label": "Close" } } },
    Table: { defaultProps: { verticalSpacing: "sm", highlightOnHover: true } },
    Notification: { defaultProps: { closeButtonProps: { "aria-label": "Dismiss" } } },
    Loader: { defaultProps: { type: "dots" } },
  },
});
