//! What clients push: OpenTelemetry metrics (OTLP v1), as far as they are looked at. Fields that are not named are skipped.
//!
//! The numbers are those of `opentelemetry/proto/metrics/v1/metrics.proto` and of what it imports.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

/// Values that are taken of one message: those of a consumer with some hundred partitions.
const VALUES_MAX: usize = 4_096;

/// Bytes of one name with its labels; a series with longer ones is left out.
const NAME_BYTES_MAX: usize = 2_048;

/// What a series takes in memory beside its texts and labels, in bytes.
const SERIES_BYTES: usize = 160;

/// What a label takes in memory beside its texts, in bytes: two strings and their allocations.
const LABEL_BYTES: usize = 80;

#[derive(Clone, PartialEq, Message)]
struct MetricsData {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceMetrics {
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeMetrics {
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(oneof = "Data", tags = "5, 7, 9")]
    data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Data {
    #[prost(message, tag = "5")]
    Gauge(Numbers),
    #[prost(message, tag = "7")]
    Sum(Numbers),
    #[prost(message, tag = "9")]
    Histogram(Histograms),
}

#[derive(Clone, PartialEq, Message)]
struct Numbers {
    #[prost(message, repeated, tag = "1")]
    points: Vec<NumberPoint>,
}

#[derive(Clone, PartialEq, Message)]
struct NumberPoint {
    #[prost(oneof = "NumberValue", tags = "4, 6")]
    value: Option<NumberValue>,
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
enum NumberValue {
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

#[derive(Clone, PartialEq, Message)]
struct Histograms {
    #[prost(message, repeated, tag = "1")]
    points: Vec<HistogramPoint>,
}

#[derive(Clone, PartialEq, Message)]
struct HistogramPoint {
    #[prost(fixed64, tag = "4")]
    count: u64,
    #[prost(double, optional, tag = "5")]
    sum: Option<f64>,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "AttributeValue", tags = "1, 2, 3, 4")]
    value: Option<AttributeValue>,
}

#[derive(Clone, PartialEq, Oneof)]
enum AttributeValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
}

/// Which metric, of what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SeriesName {
    pub(super) metric: String,
    /// By name; the names are distinct.
    pub(super) labels: Vec<(String, String)>,
}

impl SeriesName {
    /// Bytes of its texts.
    fn text_bytes(&self) -> usize {
        let labels = self.labels.iter();
        let labels = labels.map(|(name, value)| name.len() + value.len());
        self.metric.len() + labels.sum::<usize>()
    }

    /// What the series takes in memory with its value, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        SERIES_BYTES + self.text_bytes() + self.labels.len() * LABEL_BYTES
    }
}

/// The value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClientMetricValue {
    /// The present value.
    Gauge(f64),
    /// The total since the client started.
    Sum(f64),
    /// The number of values since the client started, and their sum.
    Histogram {
        /// How many values there were.
        count: u64,
        /// Their sum, if the client reports it.
        sum: Option<f64>,
    },
}

/// It is not an OTLP message of metrics.
#[derive(Debug)]
pub(super) struct Malformed;

/// The values in a message: of a series that it has more than once, the last one.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub(super) by_name: BTreeMap<SeriesName, ClientMetricValue>,
    /// Values that are not taken.
    pub(super) left_out: usize,
    taken: usize,
}

impl Values {
    /// Each value has a copy of the metric's name. The bounds come first: a message of a megabyte would else grow to
    /// gigabytes.
    fn add(&mut self, metric: &str, attributes: Vec<KeyValue>, value: ClientMetricValue) {
        if self.taken >= VALUES_MAX || metric.len() > NAME_BYTES_MAX {
            self.left_out += 1;
            return;
        }
        let name = series(metric, attributes);
        if name.text_bytes() > NAME_BYTES_MAX {
            self.left_out += 1;
            return;
        }
        self.taken += 1;
        self.by_name.insert(name, value);
    }

    fn add_numbers(&mut self, metric: &str, numbers: Numbers, value: fn(f64) -> ClientMetricValue) {
        for point in numbers.points {
            let number = match point.value {
                Some(NumberValue::Double(number)) => number,
                #[expect(clippy::cast_precision_loss, reason = "values are shown to people")]
                Some(NumberValue::Int(number)) => number as f64,
                None => continue,
            };
            self.add(metric, point.attributes, value(number));
        }
    }
}

/// Reads a message.
///
/// # Errors
/// It is not a message of metrics.
pub(super) fn parse(bytes: &[u8]) -> Result<Values, Malformed> {
    let data = MetricsData::decode(bytes).map_err(|_| Malformed)?;
    let scopes = data
        .resources
        .into_iter()
        .flat_map(|resource| resource.scopes);
    let metrics = scopes.flat_map(|scope| scope.metrics);
    let mut values = Values::default();
    for Metric { name, data } in metrics {
        match data {
            Some(Data::Gauge(numbers)) => {
                values.add_numbers(&name, numbers, ClientMetricValue::Gauge);
            }
            Some(Data::Sum(numbers)) => values.add_numbers(&name, numbers, ClientMetricValue::Sum),
            Some(Data::Histogram(histograms)) => {
                for HistogramPoint {
                    count,
                    sum,
                    attributes,
                } in histograms.points
                {
                    let value = ClientMetricValue::Histogram { count, sum };
                    values.add(&name, attributes, value);
                }
            }
            // Kafka's clients send no others.
            None => {}
        }
    }
    Ok(values)
}

fn series(metric: &str, attributes: Vec<KeyValue>) -> SeriesName {
    let label = |KeyValue { key, value }: KeyValue| {
        let value = match value.and_then(|value| value.value)? {
            AttributeValue::Text(text) => text,
            AttributeValue::Bool(value) => value.to_string(),
            AttributeValue::Int(value) => value.to_string(),
            AttributeValue::Double(value) => value.to_string(),
        };
        Some((key, value))
    };
    let mut labels: Vec<_> = attributes.into_iter().filter_map(label).collect();
    labels.sort();
    labels.dedup_by(|a, b| a.0 == b.0);
    // The attributes' larger allocation may have been reused.
    labels.shrink_to_fit();
    SeriesName {
        metric: metric.to_owned(),
        labels,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A message with one gauge and one sum.
    pub(crate) fn message(name: &str, value: f64) -> Vec<u8> {
        let attribute = |key: &str, value| KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
        };
        let gauge = NumberPoint {
            value: Some(NumberValue::Double(value)),
            attributes: vec![
                attribute("topic", AttributeValue::Text("t".to_owned())),
                attribute("partition", AttributeValue::Int(3)),
            ],
        };
        let sum = NumberPoint {
            value: Some(NumberValue::Int(7)),
            attributes: Vec::new(),
        };
        let histogram = HistogramPoint {
            count: 2,
            sum: Some(1.5),
            attributes: Vec::new(),
        };
        let metric = |name: &str, data| Metric {
            name: name.to_owned(),
            data: Some(data),
        };
        let metrics = vec![
            metric(
                name,
                Data::Gauge(Numbers {
                    points: vec![gauge],
                }),
            ),
            metric("sum", Data::Sum(Numbers { points: vec![sum] })),
            metric(
                "histogram",
                Data::Histogram(Histograms {
                    points: vec![histogram],
                }),
            ),
        ];
        let resource = ResourceMetrics {
            scopes: vec![ScopeMetrics { metrics }],
        };
        MetricsData {
            resources: vec![resource],
        }
        .encode_to_vec()
    }

    #[test]
    fn gauges_sums_and_histograms_are_read() {
        let values = parse(&message("gauge", 0.5)).expect("well-formed");
        let name = |metric: &str, labels: &[(&str, &str)]| SeriesName {
            metric: metric.to_owned(),
            labels: labels
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let expected = [
            (
                name("gauge", &[("partition", "3"), ("topic", "t")]),
                ClientMetricValue::Gauge(0.5),
            ),
            (
                name("histogram", &[]),
                ClientMetricValue::Histogram {
                    count: 2,
                    sum: Some(1.5),
                },
            ),
            (name("sum", &[]), ClientMetricValue::Sum(7.0)),
        ];
        assert!(values.by_name.into_iter().eq(expected));
        assert_eq!(values.left_out, 0);
        assert!(parse(&[]).expect("no metrics").by_name.is_empty());
    }

    #[test]
    fn other_bytes_are_refused_and_other_fields_are_skipped() {
        for malformed in [&b"\xff"[..], b"\x0a\x05ab", b"not a message at all"] {
            assert!(parse(malformed).is_err());
        }
        let mut cut = message("gauge", 0.5);
        cut.pop();
        assert!(parse(&cut).is_err());
        let mut longer = message("gauge", 0.5);
        // Field 15, a text.
        longer.extend_from_slice(b"\x7a\x02hi");
        assert_eq!(parse(&longer).expect("well-formed").by_name.len(), 3);
    }

    /// Written by hand from the specification: the field numbers are those of the official definition.
    #[test]
    fn the_field_numbers_are_those_of_opentelemetry() {
        let mut point = vec![0x19, 1, 0, 0, 0, 0, 0, 0, 0]; // time_unix_nano = 3
        point.push(0x31); // as_int = 6
        point.extend_from_slice(&(-4_i64).to_le_bytes());
        point.extend_from_slice(b"\x3a\x08\x0a\x01k\x12\x03\x0a\x01v"); // attributes = 7
        let within = |tag: u8, inner: &[u8]| {
            let mut outer = vec![tag << 3 | 2, u8::try_from(inner.len()).expect("short")];
            outer.extend_from_slice(inner);
            outer
        };
        let mut sum = within(1, &point);
        sum.extend_from_slice(&[0x10, 2, 0x18, 1]); // aggregation_temporality = 2, is_monotonic = 3
        let mut metric = b"\x0a\x01m".to_vec();
        metric.extend(within(7, &sum));
        let scope = within(2, &metric);
        let resource = within(2, &scope);
        let values = parse(&within(1, &resource)).expect("well-formed");
        let name = SeriesName {
            metric: "m".to_owned(),
            labels: vec![("k".to_owned(), "v".to_owned())],
        };
        let expected = [(name, ClientMetricValue::Sum(-4.0))];
        assert!(values.by_name.into_iter().eq(expected));
    }

    /// A message with one histogram that has a point for each of the attributes.
    fn histogram(name: String, attributes: Vec<Vec<KeyValue>>) -> Vec<u8> {
        let points = attributes.into_iter().map(|attributes| HistogramPoint {
            attributes,
            ..HistogramPoint::default()
        });
        let histograms = Histograms {
            points: points.collect(),
        };
        let metric = Metric {
            name,
            data: Some(Data::Histogram(histograms)),
        };
        let scopes = vec![ScopeMetrics {
            metrics: vec![metric],
        }];
        let resources = vec![ResourceMetrics { scopes }];
        MetricsData { resources }.encode_to_vec()
    }

    fn label(key: String, value: String) -> KeyValue {
        KeyValue {
            key,
            value: Some(AnyValue {
                value: Some(AttributeValue::Text(value)),
            }),
        }
    }

    #[test]
    fn a_long_name_is_not_copied_for_each_of_many_points() {
        // 200,000 copies of a name of 500,000 bytes are 100 GB.
        let message = histogram("m".repeat(500_000), vec![Vec::new(); 200_000]);
        assert!(message.len() < 1024 * 1024);
        let values = parse(&message).expect("well-formed");
        assert_eq!((values.by_name.len(), values.left_out), (0, 200_000));
    }

    #[test]
    fn values_and_names_have_bounds() {
        let distinct = |nth: usize| vec![label("k".to_owned(), nth.to_string())];
        let message = histogram("m".to_owned(), (0..5_000).map(distinct).collect());
        let values = parse(&message).expect("well-formed");
        assert_eq!((values.by_name.len(), values.left_out), (4_096, 904));
        let of = |bytes| vec![label("k".to_owned(), "v".repeat(bytes))];
        let message = histogram("m".to_owned(), vec![of(2_046), of(2_047)]);
        let values = parse(&message).expect("well-formed");
        assert_eq!((values.by_name.len(), values.left_out), (1, 1));
    }

    #[test]
    fn labels_without_text_count_as_memory() {
        let labels = (0..500).map(|nth| label(format!("{nth:03}"), String::new()));
        let message = histogram("m".to_owned(), vec![labels.collect()]);
        let values = parse(&message).expect("well-formed");
        let (name, _) = values.by_name.first_key_value().expect("one series");
        let held = name.labels.capacity() * size_of::<(String, String)>();
        assert!(
            name.memory_bytes() > held,
            "{} of {held}",
            name.memory_bytes()
        );
    }
}
