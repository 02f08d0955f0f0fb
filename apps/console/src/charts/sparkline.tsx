/** A line so small that it needs no axes. Decoration beside a number that says the same. */
export function Sparkline({ points, color }: { points: [number, number | null][]; color: string }) {
  const values = points.map(([, value]) => value ?? 0);
  if (values.length < 2) return <svg width={WIDTH} height={HEIGHT} aria-hidden="true" />;
  const max = Math.max(...values, 1);
  const step = WIDTH / (values.length - 1);
  const path = values
    .map(
      (value, at) =>
        `${(at * step).toFixed(1)},${(HEIGHT - 2 - (value / max) * (HEIGHT - 4)).toFixed(1)}`,
    )
    .join(" ");
  return (
    <svg width={WIDTH} height={HEIGHT} aria-hidden="true">
      <polyline points={path} fill="none" style={{ stroke: color }} strokeWidth={1.5} />
    </svg>
  );
}

const WIDTH = 96;
const HEIGHT = 26;
