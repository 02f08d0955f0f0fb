//! The sources of dynamic settings, in order of precedence.

use std::collections::BTreeMap;

use millrace_api::settings::{SettingLayer, SettingScope, SettingSource, SettingsChange};

use crate::{
    config::{self, BrokerConfig, CACHE_BYTES_DEFAULT, PREFETCH_BYTES_DEFAULT, Setting},
    settings::{
        bounds::{Bounds, Candidate, Limits, bounds},
        dynamic::{Dynamic, Values},
    },
};

/// What one scope sets at run time.
pub(crate) type Set = BTreeMap<Dynamic, u64>;

/// Where the dynamic settings have their values from.
#[derive(Debug, Clone)]
pub(crate) struct Layers {
    /// Property and value.
    file: BTreeMap<Dynamic, (&'static str, u64)>,
    pub(crate) cluster: Set,
    pub(crate) broker: Set,
}

impl Layers {
    /// The file alone.
    pub(crate) fn new(config: &BrokerConfig) -> Self {
        let values = Values::of_file(&config.storage);
        let is_set = |key: &str| {
            let is_it = |setting: &Setting| setting.key == key && !setting.is_default;
            config.settings.iter().any(is_it)
        };
        let from = |setting: Dynamic| {
            let names = [Some(setting.name()), setting.fallback()];
            let name = names.into_iter().flatten().find(|name| is_set(name))?;
            Some((setting, (name, values.get(setting))))
        };
        Self {
            file: Dynamic::ALL.into_iter().filter_map(from).collect(),
            cluster: Set::new(),
            broker: Set::new(),
        }
    }

    pub(crate) fn of(&self, scope: SettingScope) -> &Set {
        match scope {
            SettingScope::Broker => &self.broker,
            SettingScope::Cluster => &self.cluster,
        }
    }

    pub(crate) fn of_mut(&mut self, scope: SettingScope) -> &mut Set {
        match scope {
            SettingScope::Broker => &mut self.broker,
            SettingScope::Cluster => &mut self.cluster,
        }
    }

    /// Every place that sets one, the one that holds first. The default is not one of them.
    fn places(&self, setting: Dynamic) -> impl Iterator<Item = (SettingSource, &'static str, u64)> {
        let name = setting.name();
        let own = self.broker.get(&setting);
        let all = self.cluster.get(&setting);
        let file = self.file.get(&setting);
        [
            own.map(|value| (SettingSource::DynamicBroker, name, *value)),
            all.map(|value| (SettingSource::DynamicDefault, name, *value)),
            file.map(|(name, value)| (SettingSource::StaticBroker, *name, *value)),
        ]
        .into_iter()
        .flatten()
    }

    /// What holds where nobody sets it.
    pub(crate) fn default_of(&self, setting: Dynamic) -> u64 {
        let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        match setting {
            Dynamic::BlockCache | Dynamic::WalCache => bytes(CACHE_BYTES_DEFAULT),
            Dynamic::PrefetchMax => PREFETCH_BYTES_DEFAULT,
            Dynamic::Ingress | Dynamic::Egress => 0,
            Dynamic::UploadThreshold => {
                let cache = usize::try_from(self.value(Dynamic::WalCache)).unwrap_or(usize::MAX);
                bytes(config::default_upload_threshold(cache))
            }
        }
    }

    fn value(&self, setting: Dynamic) -> u64 {
        let first = self.places(setting).next();
        first.map_or_else(|| self.default_of(setting), |(_, _, value)| value)
    }

    /// What is in force.
    pub(crate) fn values(&self) -> Values {
        Values::new(|setting| self.value(setting))
    }

    /// All places of one with their values, as clients are told.
    pub(crate) fn shown(&self, setting: Dynamic) -> Vec<SettingLayer> {
        let layer = |(source, name, value): (SettingSource, &str, u64)| SettingLayer {
            source,
            name: name.to_owned(),
            value: Some(value.to_string()),
        };
        let default = (
            SettingSource::Default,
            setting.name(),
            self.default_of(setting),
        );
        self.places(setting).chain([default]).map(layer).collect()
    }

    /// The layers after a change.
    ///
    /// # Errors
    /// The first setting that is no dynamic one, or whose value is no number, in words; `unknown`
    /// says what is wrong with a name.
    pub(crate) fn changed(
        &self,
        scope: SettingScope,
        change: &SettingsChange,
        unknown: impl Fn(&str) -> String,
    ) -> Result<Self, String> {
        let mut after = self.clone();
        let set = after.of_mut(scope);
        let find = |name: &str| Dynamic::find(name).ok_or_else(|| unknown(name));
        match change {
            SettingsChange::Some(changes) => {
                for (name, value) in changes {
                    let setting = find(name)?;
                    match value {
                        Some(text) => set.insert(setting, parse(setting, text)?),
                        None => set.remove(&setting),
                    };
                }
            }
            SettingsChange::All(all) => {
                set.clear();
                for (name, text) in all {
                    let setting = find(name)?;
                    set.insert(setting, parse(setting, text)?);
                }
            }
        }
        Ok(after)
    }

    /// What one may be, the others being what they are; both caches may have what `now` has.
    pub(crate) fn bounds(&self, setting: Dynamic, now: &Values, limits: &Limits) -> Bounds {
        bounds(setting, &self.candidate(now), limits)
    }

    fn candidate(&self, now: &Values) -> Candidate {
        let caches = [Dynamic::BlockCache, Dynamic::WalCache];
        Candidate {
            values: self.values(),
            caches_now: caches.iter().map(|cache| now.get(*cache)).sum(),
            threshold_is_set: self.places(Dynamic::UploadThreshold).next().is_some(),
        }
    }

    /// Whether all that differs from `before` is legal, taken together.
    ///
    /// # Errors
    /// Every setting that is not, in words.
    pub(crate) fn check(&self, before: &Self, limits: &Limits) -> Result<(), String> {
        let (now, then) = (before.values(), self.values());
        let mut wrong = Vec::new();
        for setting in Dynamic::ALL {
            let bounds = self.bounds(setting, &now, limits);
            let mut values = Vec::new();
            if then.get(setting) != now.get(setting) {
                values.push(then.get(setting));
            }
            for scope in [SettingScope::Broker, SettingScope::Cluster] {
                let value = self.of(scope).get(&setting);
                if value != before.of(scope).get(&setting) {
                    values.extend(value);
                }
            }
            let refused = values
                .iter()
                .find_map(|value| bounds.check(setting, *value).err());
            wrong.extend(refused);
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.join("\n")),
        }
    }

    /// Leaves out what was set at run time and is not legal any more: the machine, or the file, has
    /// changed since. Gives the reasons.
    pub(crate) fn drop_illegal(&mut self, limits: &Limits) -> Vec<String> {
        let file = Self {
            cluster: Set::new(),
            broker: Set::new(),
            ..self.clone()
        };
        let now = file.values();
        let mut reasons = Vec::new();
        loop {
            let values = self.values();
            let is_set = |s: &Dynamic| self.broker.contains_key(s) || self.cluster.contains_key(s);
            let wrong = Dynamic::ALL
                .into_iter()
                .filter(is_set)
                .filter_map(|setting| {
                    let (bounds, value) = (self.bounds(setting, &now, limits), values.get(setting));
                    let reason = bounds.check(setting, value).err()?;
                    Some((bounds.beyond(value), setting, reason))
                });
            // Where two share what there is, the one that is farthest beyond makes the other look wrong.
            let Some((_, setting, reason)) = wrong.max_by_key(|(beyond, ..)| *beyond) else {
                return reasons;
            };
            reasons.push(reason);
            // What the broker has of its own goes first: what all brokers have, below it, may be legal.
            if self.broker.remove(&setting).is_none() {
                self.cluster.remove(&setting);
            }
        }
    }
}

fn parse(setting: Dynamic, text: &str) -> Result<u64, String> {
    let number = config::parse_bytes(text.trim()).and_then(|n| u64::try_from(n).map_err(drop));
    number.map_err(|()| {
        format!(
            "{}: {text:?} is not a number of bytes; write a whole number, or one with KiB, MiB or \
             GiB behind it",
            setting.name()
        )
    })
}
