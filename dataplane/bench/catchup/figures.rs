//! The main figures, and the bounds that most of them are held against.

use serde_json::{Map, Value, json};

use crate::{
    profiles::ProfileKey,
    report::{Report, What},
};

/// A figure with its bound.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    key: &'static str,
    /// Nothing where what it needs did not run.
    value: Option<f64>,
    bound: Bound,
}

/// What is good enough.
#[derive(Debug, Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Worse than with the mechanism, which came to this.
    MoreThan(Option<f64>),
    /// It tells about another broker.
    None,
}

impl Figure {
    fn is_met(&self) -> Option<bool> {
        let value = self.value?;
        match self.bound {
            Bound::AtLeast(bound) => Some(value >= bound),
            Bound::AtMost(bound) => Some(value <= bound),
            Bound::MoreThan(bound) => bound.map(|bound| value > bound),
            Bound::None => None,
        }
    }

    /// One row of a Markdown table.
    pub(crate) fn row(&self) -> String {
        let value = self
            .value
            .map_or("not measured".to_owned(), |value| format!("{value:.3}"));
        let bound = match self.bound {
            Bound::AtLeast(bound) => format!("≥ {bound}"),
            Bound::AtMost(bound) => format!("≤ {bound}"),
            Bound::MoreThan(bound) => {
                bound.map_or("–".to_owned(), |bound| format!("> {bound:.3}"))
            }
            Bound::None => "–".to_owned(),
        };
        let met = match self.is_met() {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "–",
        };
        format!("| {} | {value} | {bound} | {met} |", self.key)
    }
}

fn figure(key: &'static str, value: Option<f64>, bound: Bound) -> Figure {
    Figure { key, value, bound }
}

/// All figures.
pub(crate) fn of(report: &Report) -> Vec<Figure> {
    let mut all = of_reading(report);
    all.extend(of_producers(report));
    all.extend(of_ablations(report));
    all.extend(of_kafka(report));
    all
}

fn catch_up(report: &Report, profile: ProfileKey, key: &str) -> Option<f64> {
    report.median(profile, What::CatchUp, key)
}

fn fetched(report: &Report, profile: ProfileKey) -> Option<f64> {
    catch_up(report, profile, "fetched_per_delivered")
}

fn of_reading(report: &Report) -> Vec<Figure> {
    let side = ProfileKey::SideBySide;
    let share = |key| catch_up(report, side, key);
    vec![
        figure(
            "raw_ratio",
            ratio_to(report, What::Raw),
            Bound::AtLeast(0.8),
        ),
        figure("relay_ratio", ratio_to(report, What::Relay), Bound::None),
        figure(
            "fetched_per_delivered",
            fetched(report, ProfileKey::Main),
            Bound::AtMost(1.05),
        ),
        figure(
            "cache_mib_per_partition_max",
            cache_per_partition(report),
            Bound::AtMost(2.0),
        ),
        figure(
            "cache_of_budget_max",
            cache_of_budget(report),
            Bound::AtMost(1.0),
        ),
        figure(
            "quarter_cache.fetched_per_delivered",
            fetched(report, ProfileKey::QuarterCache),
            Bound::AtMost(1.2),
        ),
        figure(
            "side_by_side.fetched_per_delivered",
            fetched(report, side),
            Bound::AtMost(1.05),
        ),
        figure(
            "side_by_side.slow_share_of_rate_min",
            share("slow_share_of_rate_min"),
            Bound::AtLeast(0.9),
        ),
        figure(
            "side_by_side.fast_share_of_rate_min",
            share("fast_share_of_rate_min"),
            Bound::AtLeast(0.9),
        ),
    ]
}

fn of_producers(report: &Report) -> Vec<Figure> {
    use ProfileKey::{Main, NetworkBound, Pinned, Tenth};
    let ratios = [
        ("producer_p99_ratio", Main, "p99_ms", 2.0),
        ("producer_avg_ratio", Main, "avg_ms", 1.5),
        ("tenth.producer_p99_ratio", Tenth, "p99_ms", 2.0),
        ("tenth.producer_avg_ratio", Tenth, "avg_ms", 1.5),
        ("pinned.producer_p99_ratio", Pinned, "p99_ms", 2.0),
        ("pinned.producer_avg_ratio", Pinned, "avg_ms", 1.3),
        (
            "network_bound.producer_p99_ratio",
            NetworkBound,
            "p99_ms",
            2.0,
        ),
        (
            "network_bound.producer_avg_ratio",
            NetworkBound,
            "avg_ms",
            1.3,
        ),
    ];
    let ratios = ratios.map(|(key, profile, field, bound)| {
        figure(key, producer(report, profile, field), Bound::AtMost(bound))
    });
    // What is written goes through the same baseline, before the readers.
    let shares = [
        figure(
            "tenth.share_of_baseline",
            share(report, Tenth),
            Bound::AtMost(1.1),
        ),
        figure(
            "network_bound.share_of_link",
            share(report, NetworkBound),
            Bound::AtLeast(0.9),
        ),
    ];
    ratios.into_iter().chain(shares).collect()
}

fn of_ablations(report: &Report) -> Vec<Figure> {
    let p99 = |profile| producer(report, profile, "p99_ms");
    vec![
        figure(
            "ablation.lru_fetched_per_delivered",
            fetched(report, ProfileKey::QuarterCacheLru),
            Bound::MoreThan(fetched(report, ProfileKey::QuarterCache)),
        ),
        figure(
            "ablation.lru_side_by_side_fetched_per_delivered",
            fetched(report, ProfileKey::SideBySideLru),
            Bound::MoreThan(fetched(report, ProfileKey::SideBySide)),
        ),
        figure(
            "ablation.no_limiter_producer_p99_ratio",
            p99(ProfileKey::NoLimiter),
            Bound::MoreThan(p99(ProfileKey::Main)),
        ),
        figure(
            "network_bound.no_limiter_producer_p99_ratio",
            p99(ProfileKey::NetworkBoundNoLimiter),
            Bound::MoreThan(p99(ProfileKey::NetworkBound)),
        ),
    ]
}

fn of_kafka(report: &Report) -> Vec<Figure> {
    let kafka = ProfileKey::KafkaTieredLocalFolder;
    let rate = |profile| catch_up(report, profile, "mib_per_s");
    let ratio = || Some(rate(ProfileKey::Main)? / rate(kafka)?);
    let figures = [
        ("kafka_tiered_local_folder.mib_per_s", rate(kafka)),
        (
            "kafka_tiered_local_folder.producer_p99_ratio",
            producer(report, kafka, "p99_ms"),
        ),
        (
            "kafka_tiered_local_folder.producer_avg_ratio",
            producer(report, kafka, "avg_ms"),
        ),
        ("kafka_tiered_local_folder.catch_up_ratio", ratio()),
    ];
    let unbound = |(key, value)| figure(key, value, Bound::None);
    figures.into_iter().map(unbound).collect()
}

/// The figures as they are named in the JSON: a dot in a key is a level. `bounds` says of each
/// whether it is met.
pub(crate) fn json(report: &Report) -> Map<String, Value> {
    let mut all = Map::new();
    let mut bounds = Map::new();
    for figure in of(report) {
        match figure.key.split_once('.') {
            None => {
                all.insert(figure.key.to_owned(), json!(figure.value));
            }
            Some((group, key)) => {
                let group = all.entry(group).or_insert_with(|| json!({}));
                group[key] = json!(figure.value);
            }
        }
        if !matches!(figure.bound, Bound::None) {
            let met = json!({ "met": figure.is_met() });
            bounds.insert(figure.key.to_owned(), met);
        }
    }
    all.insert("bounds".to_owned(), Value::Object(bounds));
    all
}

/// Catch-up over the bare client or the relay, of medians of the same rounds.
fn ratio_to(report: &Report, limit: What) -> Option<f64> {
    let rate = |what| report.median(ProfileKey::Main, what, "mib_per_s");
    Some(rate(What::CatchUp)? / rate(limit)?)
}

/// Producers beside the readers over producers alone.
fn producer(report: &Report, profile: ProfileKey, key: &str) -> Option<f64> {
    let of = |what| report.median(profile, what, key);
    Some(of(What::During)? / of(What::Before)?)
}

fn cache_per_partition(report: &Report) -> Option<f64> {
    let key = "cache_mib_per_partition";
    let spread = report.spread(ProfileKey::NoPrefetch, What::CatchUp, key);
    spread.map(|spread| spread.max)
}

/// The worst of all profiles.
fn cache_of_budget(report: &Report) -> Option<f64> {
    let share = |profile| {
        let peak = report.spread(profile, What::CatchUp, "cache_peak_mib")?;
        let budget = report.spread(profile, What::CatchUp, "cache_budget_mib")?;
        Some(peak.max / budget.max)
    };
    ProfileKey::ALL
        .into_iter()
        .filter_map(share)
        .reduce(f64::max)
}

/// Bytes read and written per second, over the baseline.
fn share(report: &Report, profile: ProfileKey) -> Option<f64> {
    let of = |key| report.median(profile, What::CatchUp, key);
    let written = of("written_mib_per_s")?;
    // Producers are never held up: where they alone need more, readers get nothing.
    Some((of("mib_per_s")? + written) / of("baseline_mib_per_s")?.max(written))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Fields;

    fn report() -> Report {
        let mut report = Report::empty();
        for (raw, read) in [(1_000.0, 700.0), (1_200.0, 900.0), (800.0, 900.0)] {
            let main = ProfileKey::Main;
            report.add(main, What::Raw, Fields::from([("mib_per_s", raw)]));
            report.add(main, What::Relay, Fields::from([("mib_per_s", raw / 2.0)]));
            let read = Fields::from([
                ("mib_per_s", read),
                ("fetched_per_delivered", 1.01),
                ("cache_peak_mib", 90.0),
                ("cache_budget_mib", 100.0),
            ]);
            report.add(main, What::CatchUp, read);
        }
        let ms = |p99, avg| Fields::from([("p99_ms", p99), ("avg_ms", avg)]);
        report.add(ProfileKey::Main, What::Before, ms(4.0, 2.0));
        report.add(ProfileKey::Main, What::During, ms(10.0, 2.5));
        report.add(ProfileKey::NoLimiter, What::Before, ms(4.0, 2.0));
        report.add(ProfileKey::NoLimiter, What::During, ms(20.0, 5.0));
        let over = Fields::from([("cache_peak_mib", 11.0), ("cache_budget_mib", 10.0)]);
        report.add(ProfileKey::QuarterCache, What::CatchUp, over);
        let kafka = Fields::from([("mib_per_s", 300.0)]);
        report.add(ProfileKey::KafkaTieredLocalFolder, What::CatchUp, kafka);
        report
    }

    #[test]
    fn figures_are_ratios_of_medians_and_the_worst_cache() {
        let shown = json(&report());
        assert_eq!(shown["raw_ratio"], 0.9);
        assert_eq!(shown["relay_ratio"], 1.8);
        assert_eq!(shown["producer_p99_ratio"], 2.5);
        assert_eq!(shown["producer_avg_ratio"], 1.25);
        assert_eq!(shown["cache_of_budget_max"], 1.1);
        assert_eq!(shown["ablation"]["no_limiter_producer_p99_ratio"], 5.0);
        assert_eq!(shown["quarter_cache"]["fetched_per_delivered"], Value::Null);
        assert_eq!(shown["kafka_tiered_local_folder"]["catch_up_ratio"], 3.0);
    }

    #[test]
    fn a_bound_is_met_missed_or_not_known() {
        let bounds = &json(&report())["bounds"];
        let met = |key: &str| bounds[key]["met"].clone();
        assert_eq!(met("raw_ratio"), true);
        assert_eq!(met("producer_p99_ratio"), false);
        assert_eq!(met("cache_of_budget_max"), false);
        assert_eq!(met("ablation.no_limiter_producer_p99_ratio"), true);
        assert_eq!(met("tenth.share_of_baseline"), Value::Null);
        let kafka = "kafka_tiered_local_folder.catch_up_ratio";
        assert!(bounds.get(kafka).is_none(), "{bounds}");
        let rows: Vec<_> = of(&report()).iter().map(Figure::row).collect();
        assert!(rows[0].contains("0.900 | ≥ 0.8 | met"), "{}", rows[0]);
    }
}
