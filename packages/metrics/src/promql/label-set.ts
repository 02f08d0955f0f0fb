export const NAME_LABEL = "__name__";

const SEPARATOR = "\u0000";

/** Labels of a series, in order of their names. A label with an empty value is absent. Immutable. */
export class LabelSet {
  static readonly EMPTY = new LabelSet([]);

  readonly #entries: readonly (readonly [name: string, value: string])[];
  readonly #values: ReadonlyMap<string, string>;
  /** Equal for equal labels. */
  readonly key: string;

  private constructor(entries: readonly (readonly [string, string])[]) {
    this.#entries = entries;
    this.#values = new Map(entries);
    this.key = entries.flat().join(SEPARATOR);
  }

  static of(labels: Readonly<Record<string, string>>): LabelSet {
    const entries = Object.entries(labels).filter(([, value]) => value !== "");
    return new LabelSet(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** As in PromQL, an absent label has the empty value. */
  get(name: string): string {
    return this.#values.get(name) ?? "";
  }

  names(): string[] {
    return this.#entries.map(([name]) => name);
  }

  only(names: ReadonlySet<string>): LabelSet {
    return new LabelSet(this.#entries.filter(([name]) => names.has(name)));
  }

  without(names: ReadonlySet<string>): LabelSet {
    return new LabelSet(this.#entries.filter(([name]) => !names.has(name)));
  }

  toJSON(): Record<string, string> {
    return Object.fromEntries(this.#entries);
  }

  toString(): string {
    const labels = this.#entries.map(([name, value]) => `${name}=${JSON.stringify(value)}`);
    return `{${labels.join(", ")}}`;
  }
}

/** A function of labels whose results are kept: series are few, the steps of a query many. */
export function remembered<T>(of: (labels: LabelSet) => T): (labels: LabelSet) => T {
  const known = new Map<LabelSet, T>();
  return (labels) => {
    const before = known.get(labels);
    if (before !== undefined) return before;
    const result = of(labels);
    known.set(labels, result);
    return result;
  };
}
