//! Line charts as SVG. Colours are the page's variables, so that they follow its light or dark scheme.

use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;
/// Lines of the grid, about.
const TICKS: f64 = 5.0;
/// A logarithmic scale shows no more than this below its maximum, as a factor.
const DECADES_MAX: i32 = 6;

/// One line. Where a value is missing, the line is interrupted.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) name: &'static str,
    /// In the order of time.
    pub(super) points: Vec<(f64, Option<f64>)>,
}

/// How values become heights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From 0.
    Linear,
    /// By powers of ten. For latencies, whose extremes would flatten all the rest.
    Logarithmic,
}

/// A chart over time in seconds. `marks` are vertical lines with a text.
pub(super) fn chart(
    title: &str,
    unit: &str,
    scale: Scale,
    series: &[Series],
    marks: &[(f64, &str)],
) -> String {
    let times = || series.iter().flat_map(|one| one.points.iter());
    let x_max = times().map(|(x, _)| *x).fold(1.0, f64::max);
    let values = || times().filter_map(|(_, y)| *y).filter(|y| y.is_finite());
    let axis = Axis::new(scale, values());
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = draw(&mut svg, (title, unit), x_max, &axis, series, marks);
    svg
}

fn draw(
    svg: &mut String,
    (title, unit): (&str, &str),
    x_max: f64,
    axis: &Axis,
    series: &[Series],
    marks: &[(f64, &str)],
) -> std::fmt::Result {
    let x_of = |seconds: f64| LEFT + seconds / x_max * (WIDTH - LEFT - RIGHT);
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    write!(
        svg,
        "<figure><figcaption>{title}<span class=\"unit\">{unit}</span><span class=\"legend\">"
    )?;
    for (index, one) in series.iter().enumerate() {
        write!(svg, "<span><i class=\"s{index}\"></i>{}</span>", one.name)?;
    }
    write!(
        svg,
        "</span></figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">"
    )?;
    for tick in axis.ticks() {
        let y = axis.y_of(tick);
        write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            short(tick)
        )?;
    }
    let step = nice_step(x_max);
    let count = (x_max / step).floor() as u32;
    for number in 0..=count {
        let seconds = f64::from(number) * step;
        write!(
            svg,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>",
            x_of(seconds),
            bottom + 20.0,
            short(seconds)
        )?;
    }
    for (seconds, text) in marks {
        let x = x_of(*seconds);
        write!(
            svg,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
            x + 4.0,
            TOP + 10.0
        )?;
    }
    for (index, one) in series.iter().enumerate() {
        let path = path(one, x_of, axis);
        write!(svg, "<path class=\"line s{index}\" d=\"{path}\"/>")?;
    }
    write!(svg, "</svg></figure>")
}

/// A point alone becomes a dot: a line of no length with round ends.
fn path(series: &Series, x_of: impl Fn(f64) -> f64, axis: &Axis) -> String {
    let mut path = String::new();
    let mut is_drawing = false;
    for (x, y) in &series.points {
        match y.filter(|y| y.is_finite()) {
            None => is_drawing = false,
            Some(y) => {
                let (x, y) = (x_of(*x), axis.y_of(y));
                let _ = if is_drawing {
                    write!(path, "L{x:.1} {y:.1}")
                } else {
                    write!(path, "M{x:.1} {y:.1}h0")
                };
                is_drawing = true;
            }
        }
    }
    path
}

struct Axis {
    scale: Scale,
    /// Of the values; of their decimal logarithms on a logarithmic scale.
    min: f64,
    max: f64,
    step: f64,
}

impl Axis {
    fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        match scale {
            Scale::Linear => {
                let max = values.fold(0.0, f64::max);
                let step = nice_step(if max > 0.0 { max } else { 1.0 });
                let max = (max / step).ceil().max(1.0) * step;
                Self {
                    scale,
                    min: 0.0,
                    max,
                    step,
                }
            }
            Scale::Logarithmic => {
                let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
                for value in values.filter(|value| *value > 0.0) {
                    (min, max) = (min.min(value.log10()), max.max(value.log10()));
                }
                if min > max {
                    (min, max) = (0.0, 1.0);
                }
                let max = max.ceil().max(min.floor() + 1.0);
                Self {
                    scale,
                    min: min.floor().max(max - f64::from(DECADES_MAX)),
                    max,
                    step: 1.0,
                }
            }
        }
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = ((self.max - self.min) / self.step).round() as u32;
        (0..=count).map(|number| {
            let at = self.min + f64::from(number) * self.step;
            match self.scale {
                Scale::Linear => at,
                Scale::Logarithmic => 10_f64.powf(at),
            }
        })
    }

    fn y_of(&self, value: f64) -> f64 {
        let at = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(f64::MIN_POSITIVE).log10(),
        };
        let share = ((at - self.min) / (self.max - self.min)).clamp(0.0, 1.0);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }
}

/// 1, 2 or 5 times a power of ten, so that there are about [`TICKS`] steps.
fn nice_step(max: f64) -> f64 {
    let rough = max / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

/// Short enough for an axis.
fn short(number: f64) -> String {
    let (number, suffix) = match number {
        number if number >= 1e9 => (number / 1e9, " G"),
        number if number >= 1e6 => (number / 1e6, " M"),
        number if number >= 1e4 => (number / 1e3, " k"),
        number => (number, ""),
    };
    let text = format!("{number:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        for (max, step) in [
            (1.0, 0.2),
            (9.0, 2.0),
            (37.0, 10.0),
            (100.0, 20.0),
            (4e6, 1e6),
        ] {
            assert!((nice_step(max) - step).abs() < step * 1e-9, "{max}");
        }
        assert_eq!(short(0.1), "0.1");
        assert_eq!(short(20_000.0), "20 k");
        assert_eq!(short(1_500_000.0), "1.5 M");
    }

    #[test]
    fn a_line_is_interrupted_where_values_are_missing() {
        let points = vec![
            (0.0, Some(1.0)),
            (1.0, None),
            (2.0, Some(2.0)),
            (3.0, Some(4.0)),
        ];
        let series = [Series {
            name: "rate",
            points,
        }];
        let svg = chart(
            "Throughput",
            "MiB/s",
            Scale::Linear,
            &series,
            &[(1.0, "test")],
        );
        assert_eq!(
            svg.matches('M').count() - svg.matches("MiB").count(),
            2,
            "{svg}"
        );
        assert!(svg.contains("<i class=\"s0\"></i>rate") && svg.contains(">test</text>"));
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn no_values_are_no_trouble() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let series = [Series {
                name: "none",
                points: vec![(0.0, None), (1.0, Some(0.0))],
            }];
            let svg = chart("Nothing", "ms", scale, &series, &[]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
