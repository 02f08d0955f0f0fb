//! The clients that have asked what to push: what each was told, when it came, and what it pushed last.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use millrace_wire::error_code::ErrorCode;
use uuid::Uuid;

use super::{
    otlp::{ClientMetricValue, SeriesName, Values},
    subscription::{Attribute, Subscriptions},
};

/// Clients that are known at a time: Kafka's bound. The one that would be forgotten first makes room.
const INSTANCES_MAX: usize = 16_384;

/// How long a silent client is known at least (Kafka's number).
const EXPIRY_MIN: Duration = Duration::from_secs(60);

/// After so many intervals without a push, a client is forgotten.
const EXPIRY_INTERVALS: u32 = 3;

/// The values of all clients together, in bytes. What does not fit is left out and counted.
pub(super) const SERIES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What is kept of each text that a client tells of itself, in bytes. Subscriptions are matched with all of it.
const ATTRIBUTE_BYTES_MAX: usize = 256;

/// What a client tells of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) client_id: String,
    pub(crate) software_name: Option<String>,
    pub(crate) software_version: Option<String>,
    pub(crate) address: String,
    pub(crate) port: String,
}

impl Attributes {
    fn shortened(&self) -> Self {
        let cut = |text: &str| text[..text.floor_char_boundary(ATTRIBUTE_BYTES_MAX)].to_owned();
        Self {
            client_id: cut(&self.client_id),
            software_name: self.software_name.as_deref().map(cut),
            software_version: self.software_version.as_deref().map(cut),
            address: cut(&self.address),
            port: cut(&self.port),
        }
    }
}

/// What a client is to push. The metrics' names are not kept: they may be some kilobytes, and clients are many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Assigned {
    /// Which [`Subscriptions`] it was made from.
    version: u64,
    pub(super) subscription_id: i32,
    pub(super) interval: Duration,
}

impl Assigned {
    fn new(subscriptions: &Subscriptions, id: Uuid, client: &Attributes) -> Self {
        let (metrics, interval) = asked_of(subscriptions, id, client);
        let text = format!("[{}]{}", metrics.join(", "), interval.as_millis());
        Self {
            version: subscriptions.version,
            subscription_id: subscription_id(&text, id),
            interval,
        }
    }
}

/// The metrics that the subscriptions ask of a client, and how often.
pub(super) fn asked_of(
    subscriptions: &Subscriptions,
    id: Uuid,
    client: &Attributes,
) -> (Vec<String>, Duration) {
    let instance = id_text(id);
    subscriptions.of(|attribute| match attribute {
        Attribute::InstanceId => Some(&instance),
        Attribute::ClientId => Some(&client.client_id),
        Attribute::SoftwareName => client.software_name.as_deref(),
        Attribute::SoftwareVersion => client.software_version.as_deref(),
        Attribute::SourceAddress => Some(&client.address),
        Attribute::SourcePort => Some(&client.port),
    })
}

/// The CRC of what is asked for, and the client's id, so that no client's id is good for another one.
fn subscription_id(text: &str, id: Uuid) -> i32 {
    let (high, low) = id.as_u64_pair();
    let [_, _, _, _, rest @ ..] = (high ^ low).to_be_bytes();
    let [a, b, c, d, ..] = (high ^ low).to_be_bytes();
    let of_id = u32::from_be_bytes([a, b, c, d]) ^ u32::from_be_bytes(rest);
    (millrace_model::crc32c(text.as_bytes()) ^ of_id).cast_signed()
}

/// An id as Kafka writes it: base64 for URLs, without padding.
pub(super) fn id_text(id: Uuid) -> String {
    URL_SAFE_NO_PAD.encode(id.as_bytes())
}

/// One client.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) attributes: Attributes,
    pub(super) assigned: Assigned,
    got: Option<Duration>,
    pushed: Option<Duration>,
    /// When it pushed last, in milliseconds since 1970.
    pub(super) pushed_ms: Option<i64>,
    pub(super) is_terminating: bool,
    last_error: Option<ErrorCode>,
    expires: Duration,
    pub(super) series: BTreeMap<SeriesName, ClientMetricValue>,
    series_bytes: usize,
}

impl Instance {
    /// Whether it may ask what to push.
    fn admit_get(&mut self, now: Duration) -> Result<(), ErrorCode> {
        let last = self.got.max(self.pushed);
        let has_to_ask = matches!(
            self.last_error,
            Some(ErrorCode::UnknownSubscriptionId | ErrorCode::UnsupportedCompressionType)
        );
        if !has_to_ask && !self.is_due(last, now) {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        self.got = Some(now);
        Ok(())
    }

    /// Whether it may push. The first push after it has asked may come early, because clients vary the interval by half.
    fn admit_push(&mut self, is_terminating: bool, now: Duration) -> Result<(), ErrorCode> {
        if self.is_terminating {
            return Err(ErrorCode::InvalidRequest);
        }
        let is_due = self.got > self.pushed || self.is_due(self.pushed, now);
        if is_due {
            self.pushed = Some(now);
        }
        match is_due || is_terminating {
            true => Ok(()),
            false => Err(ErrorCode::ThrottlingQuotaExceeded),
        }
    }

    fn is_due(&self, last: Option<Duration>, now: Duration) -> bool {
        last.is_none_or(|last| now.saturating_sub(last) >= self.assigned.interval)
    }
}

/// All clients, by their ids.
#[derive(Debug, Default)]
pub(super) struct Instances {
    by_id: BTreeMap<Uuid, Instance>,
    /// When they are forgotten.
    by_expiry: BTreeSet<(Duration, Uuid)>,
    series_bytes: usize,
}

/// What a client wants to push, without the metrics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pushing {
    pub(super) id: Uuid,
    pub(super) subscription_id: i32,
    pub(super) is_terminating: bool,
}

impl Instances {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn series_bytes(&self) -> usize {
        self.series_bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Uuid, &Instance)> {
        self.by_id.iter().map(|(&id, instance)| (id, instance))
    }

    pub(super) fn contains(&self, id: Uuid) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Forgets those that have been silent for too long.
    pub(super) fn expire(&mut self, now: Duration) {
        while let Some(&(expires, id)) = self.by_expiry.first()
            && expires <= now
        {
            self.remove(id);
        }
    }

    /// A client asks what to push.
    pub(super) fn get(
        &mut self,
        id: Uuid,
        (client, subscriptions): (&Attributes, &Subscriptions),
        now: Duration,
    ) -> Result<Assigned, ErrorCode> {
        let instance = self.heard(id, (client, subscriptions), now);
        instance.admit_get(now)?;
        instance.last_error = None;
        Ok(instance.assigned)
    }

    /// A client wants to push: nothing of its metrics has been looked at yet. `check` says what is wrong with the request.
    pub(super) fn begin_push(
        &mut self,
        pushing: Pushing,
        (client, subscriptions): (&Attributes, &Subscriptions),
        check: impl FnOnce() -> Result<(), ErrorCode>,
        now: Duration,
    ) -> Result<(), ErrorCode> {
        let instance = self.heard(pushing.id, (client, subscriptions), now);
        let admitted = instance.admit_push(pushing.is_terminating, now);
        let checked = admitted.and_then(|()| {
            if pushing.subscription_id != instance.assigned.subscription_id {
                return Err(ErrorCode::UnknownSubscriptionId);
            }
            check()
        });
        instance.is_terminating |= pushing.is_terminating;
        instance.last_error = checked.err();
        checked
    }

    /// What a client has pushed replaces what it pushed before. Gives the number of values that were left out.
    pub(super) fn end_push(
        &mut self,
        id: Uuid,
        pushed: Result<Values, ErrorCode>,
        now_ms: i64,
    ) -> usize {
        let Some(instance) = self.by_id.get_mut(&id) else {
            return 0;
        };
        let values = match pushed {
            Ok(values) => values,
            Err(error) => {
                instance.last_error = Some(error);
                return 0;
            }
        };
        instance.pushed_ms = Some(now_ms);
        let mut left_out = values.left_out;
        if values.by_name.is_empty() {
            return left_out;
        }
        let others = self.series_bytes.saturating_sub(instance.series_bytes);
        let mut bytes = 0;
        instance.series.clear();
        for (name, value) in values.by_name {
            let needed = name.memory_bytes();
            if others + bytes + needed > SERIES_BYTES_MAX {
                left_out += 1;
                continue;
            }
            bytes += needed;
            instance.series.insert(name, value);
        }
        instance.series_bytes = bytes;
        self.series_bytes = others + bytes;
        left_out
    }

    /// The client, which is known for a while from now on, with what the present subscriptions ask of it.
    fn heard(
        &mut self,
        id: Uuid,
        (client, subscriptions): (&Attributes, &Subscriptions),
        now: Duration,
    ) -> &mut Instance {
        if let Some(known) = self.by_id.get(&id) {
            self.by_expiry.remove(&(known.expires, id));
        } else if self.by_id.len() >= INSTANCES_MAX
            && let Some(&(_, oldest)) = self.by_expiry.first()
        {
            self.remove(oldest);
        }
        let new = || Instance {
            attributes: client.shortened(),
            assigned: Assigned::new(subscriptions, id, client),
            got: None,
            pushed: None,
            pushed_ms: None,
            is_terminating: false,
            last_error: None,
            expires: now,
            series: BTreeMap::new(),
            series_bytes: 0,
        };
        let instance = self.by_id.entry(id).or_insert_with(new);
        if instance.assigned.version != subscriptions.version {
            // It may ask and push at once.
            instance.assigned = Assigned::new(subscriptions, id, client);
            (instance.got, instance.pushed) = (None, None);
            (instance.is_terminating, instance.last_error) = (false, None);
        }
        let silence = EXPIRY_MIN.max(instance.assigned.interval * EXPIRY_INTERVALS);
        instance.expires = now + silence;
        self.by_expiry.insert((instance.expires, id));
        instance
    }

    fn remove(&mut self, id: Uuid) {
        if let Some(instance) = self.by_id.remove(&id) {
            self.by_expiry.remove(&(instance.expires, id));
            self.series_bytes = self.series_bytes.saturating_sub(instance.series_bytes);
        }
    }
}
