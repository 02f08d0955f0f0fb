/**
 * Buttons and the dialog of components that are rendered without a browser, to be acted upon in
 * tests. They stand in for the real ones: `vi.mock("@mantine/core", …)` and so on.
 */
import type { ReactNode } from "react";

interface ButtonProps {
  children?: ReactNode;
  onClick?: () => void;
}

interface DialogProps {
  name: string | undefined;
  onConfirm: (name: string) => void;
}

let buttons = new Map<string, () => void>();
let dialog: DialogProps | undefined;
let opened = false;

export function Button({ children, onClick }: ButtonProps) {
  if (typeof children === "string" && onClick) buttons.set(children, onClick);
  return <button type="button">{children}</button>;
}

export function ConfirmByName(props: DialogProps) {
  dialog = props.name === undefined ? undefined : props;
  return props.name === undefined ? null : <div role="dialog">{props.name}</div>;
}

interface ReviewProps {
  opened: boolean;
  title: string;
  children?: ReactNode;
  confirm: string;
  onConfirm: () => void;
}

export function ReviewDialog({ opened, title, children, confirm, onConfirm }: ReviewProps) {
  if (!opened) return null;
  return (
    <div role="dialog">
      {title}
      {children}
      <Button onClick={onConfirm}>{confirm}</Button>
    </div>
  );
}

/** Mantine's, of the one dialog that a component has: it keeps what it holds from render to render. */
export function useDisclosure() {
  const open = () => {
    opened = true;
  };
  const close = () => {
    opened = false;
  };
  return [opened, { open, close }] as const;
}

/** As nobody has acted yet. */
export function reset(): void {
  buttons = new Map();
  dialog = undefined;
  opened = false;
}

/** Labels of what can be pressed as it was rendered last. */
export function labels(): string[] {
  return [...buttons.keys()];
}

export function press(label: string): void {
  const act = buttons.get(label);
  if (act === undefined) throw new Error(`no button "${label}" among ${labels().join(", ")}`);
  act();
}

/** The name that the open dialog asks for; undefined where none is open. */
export function askedName(): string | undefined {
  return dialog?.name;
}

/** Types the name that is asked for, and confirms. */
export function confirm(): void {
  if (dialog?.name === undefined) throw new Error("no dialog is open");
  dialog.onConfirm(dialog.name);
}
