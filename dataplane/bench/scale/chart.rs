//! The results as SVG: one panel per axis, each cost as a multiple of what it is at the axis' first step.

use std::{error::Error, fs, path::Path};

use plotters::prelude::{
    BLACK, ChartBuilder, Color, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, RGBColor,
    SVGBackend, SeriesLabelPosition, WHITE,
};
use plotters::{coord::Shift, drawing::DrawingArea};
use serde_json::Value;

use crate::{axis::Axis, figures::FIGURES};

const TITLE: &str = "Each cost as a multiple of what it is at the first step";
const SIZE: (u32, u32) = (1_000, 720);
/// Space around a panel, right of it for half of a number, below it, beside it, and for the legend's lines, in pixels.
const MARGIN: u32 = 12;
const RIGHT: u32 = 32;
const BELOW: u32 = 38;
const BESIDE: u32 = 46;
const SAMPLE: i32 = 18;
const BLUE: RGBColor = RGBColor(0x1f, 0x77, 0xb4);
const ORANGE: RGBColor = RGBColor(0xff, 0x7f, 0x0e);
const GREEN: RGBColor = RGBColor(0x2c, 0xa0, 0x2c);
const PURPLE: RGBColor = RGBColor(0x94, 0x67, 0xbd);
const RED: RGBColor = RGBColor(0xd6, 0x27, 0x28);
/// What is drawn, by the figure's key.
const LINES: [(&str, &str, RGBColor); 5] = [
    ("mib_per_s", "time for the load", BLUE),
    ("p99_ms", "p99", ORANGE),
    ("cpu_s_per_gib", "CPU of the load", GREEN),
    ("resident_mib", "memory", PURPLE),
    ("restart_s", "restart", RED),
];

type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Units, and the multiple of the first step's cost.
type Points = Vec<(f64, f64)>;

/// Draws the axes that any of the results has.
pub(crate) fn draw(results: &[Value], path: &Path) -> Result<(), Box<dyn Error>> {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    for (axis, panel) in Axis::ALL.into_iter().zip(root.split_evenly((2, 2))) {
        let of_axis = |results: &Value| results["axes"][axis.name()]["steps"].as_array().cloned();
        if let Some(steps) = results.iter().find_map(of_axis) {
            draw_axis(axis, &steps, &panel)?;
        }
    }
    root.present()?;
    drop(root);
    // What a screen reader says of it.
    let titled = svg.replacen(">\n", &format!(">\n<title>{TITLE}</title>\n"), 1);
    fs::write(path, titled)?;
    Ok(())
}

fn draw_axis(axis: Axis, steps: &[Value], panel: &Panel<'_>) -> Result<(), Box<dyn Error>> {
    let lines = LINES.map(|(key, label, color)| (points(steps, key), label, color));
    let all = || lines.iter().flat_map(|(points, ..)| points.iter().copied());
    let units = all().fold((f64::MAX, 1.0), |(least, most): (f64, f64), (units, _)| {
        (least.min(units), most.max(units))
    });
    let highest = all().fold(10.0, |most: f64, (_, cost)| most.max(cost * 1.5));
    let lowest = all().fold(0.5, |least: f64, (_, cost)| least.min(cost));
    let mut chart = ChartBuilder::on(panel)
        .caption(axis.name(), ("sans-serif", 18))
        .margin(MARGIN)
        .margin_right(RIGHT)
        .x_label_area_size(BELOW)
        .y_label_area_size(BESIDE)
        .build_cartesian_2d(
            (units.0..units.1).log_scale(),
            (lowest..highest).log_scale(),
        )?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .y_desc("times the first step")
        .x_label_formatter(&|units| format!("{units:.0}"))
        .y_label_formatter(&|times| format!("{times:.*}", usize::from(*times < 1.0)))
        .draw()?;
    for (points, label, color) in lines {
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(label)
            .legend(move |(x, y)| {
                PathElement::new([(x, y), (x + SAMPLE, y)], color.stroke_width(2))
            });
    }
    let linear = [
        (units.0, 1.0),
        (
            units.1.min(units.0 * highest),
            highest.min(units.1 / units.0),
        ),
    ];
    let grey = BLACK.mix(0.3);
    chart
        .draw_series(LineSeries::new(linear, grey))?
        .label("linear")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + SAMPLE, y)], grey));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .draw()?;
    Ok(())
}

/// The medians of a figure's cost, as multiples of the first.
fn points(steps: &[Value], key: &str) -> Points {
    let figure = FIGURES.iter().find(|figure| figure.key == key);
    let cost = |step: &Value| {
        let median = step[key]["median"].as_f64()?;
        Some((step["units"].as_f64()?, figure?.cost_of(median)))
    };
    let costs: Points = steps.iter().filter_map(cost).collect();
    let first = costs.first().map_or(1.0, |&(_, cost)| cost);
    costs
        .into_iter()
        .map(|(units, cost)| (units, cost / first))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn costs_are_multiples_of_the_first_steps() {
        let step = |units, mib_per_s: f64, restart: f64| {
            json!({
                "units": units,
                "mib_per_s": { "median": mib_per_s },
                "restart_s": { "median": restart },
            })
        };
        let steps = [step(10, 200.0, 0.5), step(100, 100.0, 2.0)];
        assert_eq!(points(&steps, "mib_per_s"), [(10.0, 1.0), (100.0, 2.0)]);
        assert_eq!(points(&steps, "restart_s"), [(10.0, 1.0), (100.0, 4.0)]);
        assert!(points(&steps, "p99_ms").is_empty());
    }
}
