//! Medians, as tables and as JSON.

use millrace_bench::spread::Spread;
use serde_json::{Map, Value, json};

use crate::{
    arguments::Options,
    axis::Axis,
    figures::{FIGURES, Figure, Figures, RESIDENT_NOISE_MIB},
    growth::{LINEAR_MAX, exponents},
};

/// All rounds of all steps.
#[derive(Debug)]
pub(crate) struct Report {
    rounds: usize,
    quick: bool,
    /// How idle the machine was before each measurement, in percent.
    pub(crate) idle_percent: Vec<f64>,
    axes: Vec<(Axis, Vec<Rounds>)>,
}

/// What all rounds have shown of one step.
#[derive(Debug)]
pub(crate) struct Rounds {
    pub(crate) units: usize,
    pub(crate) figures: Vec<Figures>,
}

impl Rounds {
    fn spread(&self, figure: &Figure) -> Option<Spread> {
        Spread::of(self.figures.iter().map(figure.of))
    }
}

impl Report {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            rounds: options.rounds,
            quick: options.quick,
            idle_percent: Vec::new(),
            axes: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, axis: Axis, steps: Vec<Rounds>) {
        self.axes.push((axis, steps));
    }

    /// One table per axis, in Markdown, and what is worse than linear.
    pub(crate) fn print(&self) {
        for (axis, steps) in &self.axes {
            print_table(*axis, steps);
            for line in worse_than_linear(steps) {
                println!("{}: {line}", axis.name());
            }
        }
        let least_idle = self.idle_percent.iter().copied().fold(100.0, f64::min);
        println!("\nthe machine idled {least_idle:.0} % before the busiest round");
    }

    pub(crate) fn json(&self) -> Value {
        let axes = self.axes.iter();
        let axes: Map<_, _> = axes
            .map(|(axis, steps)| (axis.name().to_owned(), axis_json(steps)))
            .collect();
        json!({
            "axes": axes,
            "rounds": self.rounds,
            "quick": self.quick,
            "idle_percent_before_runs": self.idle_percent,
        })
    }
}

fn print_table(axis: Axis, steps: &[Rounds]) {
    print!("\n| {} |", axis.name());
    for figure in &FIGURES {
        print!(" {} |", figure.heading);
    }
    println!(" KiB each |\n|---|{}---|", "---|".repeat(FIGURES.len()));
    for step in steps {
        print!("| {} |", step.units);
        for figure in &FIGURES {
            let spread = step.spread(figure);
            let cell = spread.map(|spread| spread.cell(figure.digits));
            print!(" {} |", cell.unwrap_or_default());
        }
        let each = bytes_each(steps, step).map(|bytes| format!("{:.1}", bytes / 1_024.0));
        println!(" {} |", each.unwrap_or_else(|| "–".to_owned()));
    }
    println!();
}

/// Resident bytes of a unit: what a step has more than the first one, by the units that it has more. `None` where that may be
/// chance.
fn bytes_each(steps: &[Rounds], step: &Rounds) -> Option<f64> {
    let first = steps.first().filter(|first| first.units < step.units)?;
    let resident = |of: &Rounds| Spread::of(of.figures.iter().map(|of| of.resident_mib));
    let more = resident(step)?.median - resident(first)?.median;
    (more > RESIDENT_NOISE_MIB)
        .then(|| more * f64::from(1 << 20) / (step.units - first.units) as f64)
}

/// The exponents of a figure between steps.
fn growth(steps: &[Rounds], figure: &Figure) -> Vec<Option<f64>> {
    let units: Vec<usize> = steps.iter().map(|step| step.units).collect();
    let spreads = steps.iter().filter_map(|step| step.spread(figure));
    let costs: Vec<Spread> = spreads.map(|spread| figure.costs_of(spread)).collect();
    exponents(&units, &costs, figure.noise)
}

fn worse_than_linear(steps: &[Rounds]) -> Vec<String> {
    let mut found = Vec::new();
    for figure in &FIGURES {
        let between = steps.windows(2).zip(growth(steps, figure));
        for (pair, exponent) in between {
            if let Some(exponent) = exponent.filter(|&exponent| exponent > LINEAR_MAX) {
                found.push(format!(
                    "{} is worse than linear from {} to {}: exponent {exponent:.2}",
                    figure.key, pair[0].units, pair[1].units
                ));
            }
        }
    }
    found
}

fn axis_json(steps: &[Rounds]) -> Value {
    let step_json = |step: &Rounds| {
        let figures = FIGURES.iter();
        let figures = figures.map(|figure| {
            let spread = step.spread(figure).map(Spread::json);
            (figure.key.to_owned(), json!(spread))
        });
        let mut all: Map<String, Value> = figures.collect();
        all.insert("units".to_owned(), json!(step.units));
        all.insert("bytes_each".to_owned(), json!(bytes_each(steps, step)));
        Value::Object(all)
    };
    let growths = FIGURES.iter();
    let growths: Map<String, Value> = growths
        .map(|figure| (figure.key.to_owned(), json!(growth(steps, figure))))
        .collect();
    json!({
        "steps": steps.iter().map(step_json).collect::<Vec<_>>(),
        "exponents": growths,
        "worse_than_linear": worse_than_linear(steps),
    })
}
