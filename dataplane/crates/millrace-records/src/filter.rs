//! Which records of a scan are answered.

use memchr::memmem::Finder;
use millrace_client::consumer::RecordRef;

/// All of them must hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// The key is exactly this.
    pub(crate) key: Option<Vec<u8>>,
    /// There is such a header; with a value, one that has it.
    pub(crate) header: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// Key or value has these bytes somewhere.
    pub(crate) text: Option<Finder<'static>>,
}

impl Filter {
    pub(crate) fn admits(&self, record: &RecordRef<'_>) -> bool {
        let key = self.key.as_deref();
        if key.is_some_and(|wanted| record.key != Some(wanted)) {
            return false;
        }
        if let Some(text) = &self.text {
            let has = |bytes: Option<&[u8]>| bytes.is_some_and(|bytes| text.find(bytes).is_some());
            if !has(record.key) && !has(record.value) {
                return false;
            }
        }
        match &self.header {
            None => true,
            Some((name, value)) => record.headers().any(|(named, has)| {
                let wanted = value.as_deref();
                named == name && wanted.is_none_or(|wanted| has == Some(wanted))
            }),
        }
    }
}
