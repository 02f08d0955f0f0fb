//! Checks a body against its schema before the codec sees it.
//!
//! The codec trusts the counts in a body and allocates for them: a ten-byte frame that claims 2^31
//! topics would abort the process. So every body is first walked, without allocating, along the
//! schemas in [`requests`] or [`responses`], which only know each field's length. A body that passes
//! has as many elements as it claims, and at most [`REQUEST_ELEMENTS_MAX`] or
//! [`RESPONSE_ELEMENTS_MAX`] of them.

use kafka_protocol::messages::ApiKey;

mod fields;
mod producers;
mod reader;
mod requests;
mod responses;
mod share_groups;
mod share_states;
mod telemetry;
mod transactions;

pub(crate) use reader::Reader;

/// The most elements of all lists and tagged fields of one request together. An element may take
/// one byte in the frame and a hundred in memory, so the frame's size alone is no bound; this is
/// more than all partitions that a cluster should have.
pub const REQUEST_ELEMENTS_MAX: usize = 262_144;

/// The most elements of one response: more than the metadata of the largest clusters, whose
/// partitions each have a dozen, and far less than what a frame of 128 MiB could claim.
pub const RESPONSE_ELEMENTS_MAX: usize = 16 * REQUEST_ELEMENTS_MAX;

/// What is wrong with the bytes of a header or a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedBody {
    /// The bytes end inside a field.
    #[error("it ends inside a field")]
    Truncated,
    /// A length below -1.
    #[error("a length is negative")]
    NegativeLength,
    /// A variable-length number of more than 32 bits.
    #[error("a variable-length number is too long")]
    LongVarint,
    /// A tagged field's size is not its value's size.
    #[error("a tagged field's size does not match its value")]
    TaggedFieldSize,
    /// More than [`REQUEST_ELEMENTS_MAX`] or [`RESPONSE_ELEMENTS_MAX`] elements.
    #[error("it has too many elements")]
    TooManyElements,
    /// The codec refuses: text that is not UTF-8, a null that may not be, a tag too new.
    #[error("a field has a value that its schema does not allow")]
    Schema,
    /// The request is of another API than the message; a defect of the caller.
    #[error("it belongs to another API")]
    OtherApi,
}

/// What a field is, as far as its length goes.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// So many bytes.
    Fixed(usize),
    /// Length and text, nullable: 16-bit length, or compact in flexible versions.
    Text,
    /// Length and bytes, nullable: 32-bit length, or compact.
    Blob,
    /// Count and elements, nullable: 32-bit count, or compact.
    List(&'static Kind),
    /// Fields and, in flexible versions, tagged fields.
    Struct(&'static Schema),
    /// A byte that is 1 where the structure follows.
    NullableStruct(&'static Schema),
}

/// A field and the versions that have it.
#[derive(Debug, Clone, Copy)]
struct Field {
    kind: Kind,
    since: i16,
    until: i16,
}

/// A tagged field whose value the codec reads.
#[derive(Debug, Clone, Copy)]
struct Tagged {
    tag: u32,
    since: i16,
    kind: Kind,
}

/// The fields of a structure, in order.
#[derive(Debug, Clone, Copy)]
struct Schema {
    fields: &'static [Field],
    tagged: &'static [Tagged],
}

/// A request's or response's body.
#[derive(Debug, Clone, Copy)]
struct MessageShape {
    /// The first version with compact lengths and tagged fields.
    flexible_from: i16,
    schema: &'static Schema,
}

/// Walks the body of a request. Bytes after it are ignored.
///
/// # Errors
/// The first thing that is wrong. An API without a schema is [`MalformedBody::OtherApi`].
pub(crate) fn check(api_key: ApiKey, version: i16, body: &[u8]) -> Result<(), MalformedBody> {
    let shape = requests::shape_of(api_key).ok_or(MalformedBody::OtherApi)?;
    measure(shape, version, body, REQUEST_ELEMENTS_MAX).map(drop)
}

/// Walks the body of a response. Bytes after it are ignored.
///
/// # Errors
/// The first thing that is wrong. An API without a schema is [`MalformedBody::OtherApi`].
pub(crate) fn check_response(
    api_key: ApiKey,
    version: i16,
    body: &[u8],
) -> Result<(), MalformedBody> {
    let shape = responses::shape_of(api_key).ok_or(MalformedBody::OtherApi)?;
    measure(shape, version, body, RESPONSE_ELEMENTS_MAX).map(drop)
}

/// Walks a body and tells its length in bytes.
fn measure(
    shape: MessageShape,
    version: i16,
    body: &[u8],
    elements_max: usize,
) -> Result<usize, MalformedBody> {
    let mut walk = Walk::new(shape, version, body, elements_max);
    walk.structure(shape.schema)?;
    Ok(walk.place())
}

/// Walks the body of a request, and gives the places of its ids.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_ids(
    api_key: ApiKey,
    version: i16,
    body: &[u8],
) -> Result<Vec<usize>, MalformedBody> {
    let shape = requests::shape_of(api_key).ok_or(MalformedBody::OtherApi)?;
    let mut walk = Walk::new(shape, version, body, REQUEST_ELEMENTS_MAX);
    walk.ids = Some(Vec::new());
    walk.structure(shape.schema)?;
    Ok(walk.ids.unwrap_or_default())
}

/// Bytes of an id.
pub(crate) const ID_BYTES: usize = 16;

struct Walk<'a> {
    reader: Reader<'a>,
    body_bytes: usize,
    version: i16,
    flexible: bool,
    elements_left: usize,
    /// Where ids are, if somebody wants to know.
    ids: Option<Vec<usize>>,
}

impl<'a> Walk<'a> {
    fn new(shape: MessageShape, version: i16, body: &'a [u8], elements_max: usize) -> Self {
        Self {
            reader: Reader::new(body),
            body_bytes: body.len(),
            version,
            flexible: version >= shape.flexible_from,
            elements_left: elements_max,
            ids: None,
        }
    }

    /// How far it has come, in bytes.
    fn place(&self) -> usize {
        self.body_bytes - self.reader.remaining()
    }

    fn structure(&mut self, schema: &Schema) -> Result<(), MalformedBody> {
        for field in schema.fields {
            if (field.since..=field.until).contains(&self.version) {
                self.value(&field.kind)?;
            }
        }
        if self.flexible {
            self.tagged_fields(schema.tagged)
        } else {
            Ok(())
        }
    }

    fn value(&mut self, kind: &Kind) -> Result<(), MalformedBody> {
        match kind {
            Kind::Fixed(len) => {
                let place = self.place();
                if let Some(ids) = self.ids.as_mut().filter(|_| *len == ID_BYTES) {
                    ids.push(place);
                }
                self.reader.skip(*len)
            }
            Kind::Text => {
                let len = if self.flexible {
                    self.reader.compact_len()?
                } else {
                    self.reader.nullable_len_i16()?
                };
                self.reader.skip(len.unwrap_or(0))
            }
            Kind::Blob => {
                let len = self.long_len()?;
                self.reader.skip(len.unwrap_or(0))
            }
            Kind::List(element) => self.list(element),
            Kind::Struct(schema) => self.structure(schema),
            Kind::NullableStruct(schema) => match self.reader.i8()? {
                1 => self.structure(schema),
                _ => Ok(()),
            },
        }
    }

    fn list(&mut self, element: &Kind) -> Result<(), MalformedBody> {
        let count = self.long_len()?.unwrap_or(0);
        self.spend(count)?;
        for _ in 0..count {
            self.value(element)?;
        }
        Ok(())
    }

    fn tagged_fields(&mut self, known: &[Tagged]) -> Result<(), MalformedBody> {
        let count = self.reader.unsigned_varint()? as usize;
        self.spend(count)?;
        for _ in 0..count {
            let tag = self.reader.unsigned_varint()?;
            let size = self.reader.unsigned_varint()? as usize;
            let before = self.reader.remaining();
            let is_known = |field: &&Tagged| field.tag == tag && self.version >= field.since;
            match known.iter().find(is_known) {
                None => self.reader.skip(size)?,
                Some(field) => {
                    self.value(&field.kind)?;
                    if before - self.reader.remaining() != size {
                        return Err(MalformedBody::TaggedFieldSize);
                    }
                }
            }
        }
        Ok(())
    }

    fn long_len(&mut self) -> Result<Option<usize>, MalformedBody> {
        if self.flexible {
            self.reader.compact_len()
        } else {
            self.reader.nullable_len_i32()
        }
    }

    fn spend(&mut self, elements: usize) -> Result<(), MalformedBody> {
        let left = self.elements_left.checked_sub(elements);
        self.elements_left = left.ok_or(MalformedBody::TooManyElements)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
