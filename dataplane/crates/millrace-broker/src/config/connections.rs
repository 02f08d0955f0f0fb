//! How many connections there may be, how many may come per second, and what clients may use.

use std::{collections::HashMap, net::IpAddr, time::Duration};

use millrace_api::{FETCH_BYTES_MAX, QuotaConfig, TELEMETRY_BYTES_MAX};
use millrace_net::{ConnectionLimits, ListenerLimits};
use millrace_security::quota::Windows;

use super::{Endpoint, Reader};

const PER_IP_OVERRIDES: &str = "max.connections.per.ip.overrides";
const CONNECTIONS_MAX: &str = "max.connections";
const CREATION_RATE: &str = "max.connection.creation.rate";

/// Kafka's default of nearly everything: no limit.
const UNLIMITED: i64 = 2_147_483_647;

/// The most windows of a rate: each costs eight bytes for each client with a quota.
const WINDOWS_MAX: i64 = 100;

/// An hour.
const WINDOW_SECONDS_MAX: i64 = 3_600;

/// The most that `telemetry.max.bytes` may be: what is pushed is in memory, and takes several times as much there while it is
/// read.
const TELEMETRY_BYTES_LIMIT: i64 = 16 << 20;

/// What one request may ask for or bring, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// `fetch.max.bytes`: the most that one fetch answers, whatever the client allows.
    pub fetch_bytes_max: usize,
    /// `telemetry.max.bytes`: the most that a client may push of its metrics at a time.
    pub telemetry_bytes_max: usize,
}

pub(super) fn read_request_limits(r: &mut Reader<'_>) -> RequestLimits {
    let (key, pushed) = ("telemetry.max.bytes", 1..=TELEMETRY_BYTES_LIMIT);
    RequestLimits {
        fetch_bytes_max: r.bytes("fetch.max.bytes", FETCH_BYTES_MAX, 1_024..=1 << 30),
        telemetry_bytes_max: r.bytes(key, TELEMETRY_BYTES_MAX, pushed),
    }
}

/// Kafka's names of the byte rates and its default of no bound. Kafka itself dropped these two from its file
/// in 3.0 in favour of quotas that are changed at run time; here they are what clients have without those.
pub(super) fn read_quotas(r: &mut Reader<'_>) -> QuotaConfig {
    let mut quota = |key| {
        let bytes_per_s = r.number(key, i64::MAX, 1..=i64::MAX);
        let bounded = bytes_per_s < i64::MAX;
        u64::try_from(bytes_per_s).ok().filter(|_| bounded)
    };
    QuotaConfig {
        produce_bytes_per_s: quota("quota.producer.default"),
        fetch_bytes_per_s: quota("quota.consumer.default"),
        windows: read_windows(r, "quota.window.num", "quota.window.size.seconds"),
        mutation_windows: read_windows(
            r,
            "controller.quota.window.num",
            "controller.quota.window.size.seconds",
        ),
    }
}

fn read_windows(r: &mut Reader<'_>, samples: &'static str, length: &'static str) -> Windows {
    let samples = r.number(samples, 11, 1..=WINDOWS_MAX);
    let length_s = r.number(length, 1, 1..=WINDOW_SECONDS_MAX);
    Windows {
        samples: u32::try_from(samples).unwrap_or(1),
        length: Duration::from_secs(u64::try_from(length_s).unwrap_or(1)),
    }
}

/// The limits of the whole broker.
pub(super) fn read_limits(r: &mut Reader<'_>, windows: Windows) -> ConnectionLimits {
    let per_address = r.number("max.connections.per.ip", UNLIMITED, 0..=UNLIMITED);
    let rate = r.number(CREATION_RATE, UNLIMITED, 1..=UNLIMITED);
    ConnectionLimits {
        per_address_max: usize::try_from(per_address).unwrap_or(usize::MAX),
        per_address_overrides: read_overrides(r),
        creation_rate_max: per_second(rate),
        windows,
    }
}

/// Those of each listener that has its own, by its name.
pub(super) fn read_listener_limits(
    r: &mut Reader<'_>,
    listeners: &[Endpoint],
) -> HashMap<String, ListenerLimits> {
    let limits = |listener: &Endpoint| {
        let connections = own_number(r, &listener.name, CONNECTIONS_MAX);
        let rate = own_number(r, &listener.name, CREATION_RATE);
        let limits = ListenerLimits {
            connections_max: connections.and_then(|number| usize::try_from(number).ok()),
            creation_rate_max: rate.and_then(per_second),
        };
        (listener.name.clone(), limits)
    };
    listeners.iter().map(limits).collect()
}

/// A number of connections that is set for the listener itself.
fn own_number(r: &mut Reader<'_>, listener: &str, key: &'static str) -> Option<i64> {
    let text = r.for_listener_only(listener, key)?;
    match text.parse() {
        Ok(number @ 1..=UNLIMITED) => Some(number),
        _ => {
            let problem =
                format!("{text:?} of the listener {listener} is no number of connections");
            let remedy = "write a whole number from 1 on, or remove the line";
            r.fail(key, problem, remedy);
            None
        }
    }
}

fn per_second(number: i64) -> Option<f64> {
    let limited = i32::try_from(number).ok().filter(|_| number < UNLIMITED);
    limited.map(f64::from)
}

fn read_overrides(r: &mut Reader<'_>) -> HashMap<IpAddr, usize> {
    let text = r.text(PER_IP_OVERRIDES, "");
    let entries = text.split(',').map(str::trim);
    let mut overrides = HashMap::new();
    for entry in entries.filter(|entry| !entry.is_empty()) {
        // An IPv6 address has colons of its own.
        let parsed = entry.rsplit_once(':').and_then(|(address, number)| {
            let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
            Some((address.to_canonical(), number.parse().ok()?))
        });
        match parsed {
            Some((address, number)) => {
                overrides.insert(address, number);
            }
            None => {
                let problem = format!("{entry:?} is not an address with a number");
                let remedy =
                    "write ADDRESS:NUMBER, such as 127.0.0.1:200; host names are not resolved";
                r.fail(PER_IP_OVERRIDES, problem, remedy);
            }
        }
    }
    overrides
}
