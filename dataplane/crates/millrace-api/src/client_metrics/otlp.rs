//! What clients push: OpenTelemetry metrics (OTLP v1), as far as they are looked at. Fields that are not named are skipped.
//!
//! The numbers are those of `opentelemetry/proto/metrics/v1/metrics.proto` and of what it imports.

use prost::{Message, Oneof};

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
    pub(super) fn bytes(&self) -> usize {
        let labels = self
            .labels
            .iter()
            .map(|(name, value)| name.len() + value.len());
        self.metric.len() + labels.sum::<usize>()
    }
}

/// The value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClientMetricValue {
    /// What is now.
    Gauge(f64),
    /// The sum of all since the client has started.
    Sum(f64),
    /// The number of all values since the client has started, and their sum.
    Histogram {
        /// How many there were.
        count: u64,
        /// Their sum, if the client tells it.
        sum: Option<f64>,
    },
}

/// It is no OTLP message of metrics.
#[derive(Debug)]
pub(super) struct Malformed;

/// The newest values in a message, in its order.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<(SeriesName, ClientMetricValue)>, Malformed> {
    let data = MetricsData::decode(bytes).map_err(|_| Malformed)?;
    let scopes = data
        .resources
        .into_iter()
        .flat_map(|resource| resource.scopes);
    let metrics = scopes.flat_map(|scope| scope.metrics);
    let mut values = Vec::new();
    for Metric { name, data } in metrics {
        match data {
            Some(Data::Gauge(numbers)) => {
                values.extend(of_numbers(&name, numbers, ClientMetricValue::Gauge))
            }
            Some(Data::Sum(numbers)) => {
                values.extend(of_numbers(&name, numbers, ClientMetricValue::Sum))
            }
            Some(Data::Histogram(histograms)) => {
                let points = histograms.points.into_iter();
                values.extend(points.map(|point| {
                    let value = ClientMetricValue::Histogram {
                        count: point.count,
                        sum: point.sum,
                    };
                    (series(&name, point.attributes), value)
                }));
            }
            // Kafka's clients send no others.
            None => {}
        }
    }
    Ok(values)
}

fn of_numbers(
    name: &str,
    numbers: Numbers,
    value: fn(f64) -> ClientMetricValue,
) -> impl Iterator<Item = (SeriesName, ClientMetricValue)> {
    numbers.points.into_iter().filter_map(move |point| {
        let number = match point.value? {
            NumberValue::Double(number) => number,
            #[expect(clippy::cast_precision_loss, reason = "values are shown to people")]
            NumberValue::Int(number) => number as f64,
        };
        Some((series(name, point.attributes), value(number)))
    })
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
            (name("sum", &[]), ClientMetricValue::Sum(7.0)),
            (
                name("histogram", &[]),
                ClientMetricValue::Histogram {
                    count: 2,
                    sum: Some(1.5),
                },
            ),
        ];
        assert_eq!(values, expected);
        assert!(parse(&[]).expect("no metrics").is_empty());
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
        assert_eq!(parse(&longer).expect("well-formed").len(), 3);
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
        assert_eq!(values, [(name, ClientMetricValue::Sum(-4.0))]);
    }
}
