//! Regular expressions that members subscribe to. The broker matches them, in linear time, with the
//! names of all topics that the member whose heartbeat asks for it may describe.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use regex::Regex;

use super::{ConsumerGroup, ConsumerValue, Member};
use crate::{
    config::{PATTERN_REFRESH_MAX, PATTERN_REFRESH_MIN},
    kept::Now,
    pattern::whole_match,
    records::{ConsumerPart, StoredPattern},
};

/// Tells whether a member may describe a topic.
pub(crate) type MayDescribe<'a> = &'a dyn Fn(&str) -> bool;

/// The patterns of a group.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    by_text: BTreeMap<String, Pattern>,
    /// The topics' revision when they were matched last, and when that was.
    matched: Option<(u64, Duration)>,
}

#[derive(Debug, Default)]
struct Pattern {
    /// None until it is matched for the first time since the group was loaded.
    compiled: Option<Regex>,
    topics: BTreeSet<String>,
}

impl Patterns {
    pub(super) fn matches(&self, pattern: &str, topic: &str) -> bool {
        let pattern = self.by_text.get(pattern);
        pattern.is_some_and(|pattern| pattern.topics.contains(topic))
    }

    pub(super) fn topics(&self, pattern: &str) -> impl Iterator<Item = &String> {
        self.by_text
            .get(pattern)
            .into_iter()
            .flat_map(|p| &p.topics)
    }

    pub(super) fn restore(&mut self, pattern: &str, stored: &StoredPattern) {
        let pattern = self.by_text.entry(pattern.to_owned()).or_default();
        pattern.topics = stored.topics.iter().cloned().collect();
    }
}

impl ConsumerGroup {
    /// Matches a pattern that no member has subscribed to before.
    pub(super) fn add_pattern(
        &mut self,
        text: &str,
        compiled: Regex,
        may_describe: MayDescribe<'_>,
        now: Now,
    ) {
        if self.patterns.by_text.contains_key(text) {
            return;
        }
        let pattern = Pattern {
            topics: self.matching(&compiled, may_describe),
            compiled: Some(compiled),
        };
        self.patterns.by_text.insert(text.to_owned(), pattern);
        self.store_pattern(text, now);
    }

    fn matching(&self, compiled: &Regex, may_describe: MayDescribe<'_>) -> BTreeSet<String> {
        let names = self.topics.names().into_iter();
        let names = names.filter(|name| compiled.is_match(name.as_str()));
        names
            .map(|name| name.as_str().to_owned())
            .filter(|name| may_describe(name))
            .collect()
    }

    fn store_pattern(&mut self, text: &str, now: Now) {
        let stored = StoredPattern {
            topics: self.patterns.topics(text).cloned().collect(),
            version: i64::try_from(self.topics.revision()).unwrap_or(i64::MAX),
            timestamp_ms: now.ms,
        };
        let part = ConsumerPart::Pattern(text.to_owned());
        self.stored.push(part, Some(ConsumerValue::Pattern(stored)));
    }

    /// Matches all patterns again where topics came or went, or it was long ago.
    pub(super) fn refresh_patterns(&mut self, may_describe: MayDescribe<'_>, now: Now) {
        if self.patterns.by_text.is_empty() {
            return;
        }
        let revision = self.topics.revision();
        let is_due = match self.patterns.matched {
            None => true,
            Some((seen, at)) if seen == revision => now.at >= at + PATTERN_REFRESH_MAX,
            Some((_, at)) => now.at >= at + PATTERN_REFRESH_MIN,
        };
        if !is_due {
            return;
        }
        self.patterns.matched = Some((revision, now.at));
        let texts: Vec<String> = self.patterns.by_text.keys().cloned().collect();
        for text in texts {
            let known = self.patterns.by_text.get(&text);
            let compiled = known.and_then(|pattern| pattern.compiled.clone());
            // One that another broker took and this one does not matches what it did.
            let Some(compiled) = compiled.or_else(|| whole_match(&text).ok()) else {
                continue;
            };
            let topics = self.matching(&compiled, may_describe);
            let Some(pattern) = self.patterns.by_text.get_mut(&text) else {
                continue;
            };
            pattern.compiled = Some(compiled);
            if pattern.topics != topics {
                pattern.topics = topics;
                // Whatever the revision says, what the members subscribe to is another thing now.
                self.seen_topics = None;
                self.store_pattern(&text, now);
            }
        }
    }

    /// Forgets the patterns that no member subscribes to any more.
    pub(super) fn forget_patterns(&mut self) {
        if self.patterns.by_text.is_empty() {
            return;
        }
        let used = |member: &Member| member.subscription.pattern.clone();
        let used: BTreeSet<String> = self.members.values().filter_map(used).collect();
        let known = self.patterns.by_text.keys();
        let unused: Vec<String> = known
            .filter(|text| !used.contains(*text))
            .cloned()
            .collect();
        for text in unused {
            self.patterns.by_text.remove(&text);
            self.stored.push(ConsumerPart::Pattern(text), None);
        }
    }
}
