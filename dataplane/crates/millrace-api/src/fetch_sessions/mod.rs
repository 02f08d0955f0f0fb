//! Fetch sessions (KIP-227): a client says once what it fetches, and then only what changes; it is answered only with
//! what it does not know.
//!
//! A session belongs to the broker, not to a connection, and is lost with it: a client whose session is unknown
//! starts another one. Who has none, because there is no room or because it wants none, sends whole requests.
//!
//! | part | what it is |
//! |---|---|
//! | `partitions` | what one session fetches, and what was told |
//! | `left_out` | how long a request waits while its client may hold records of partitions that it does not ask for |
//! | `slots` | which sessions there are, and which one makes room for another |

mod left_out;
mod partitions;
mod slots;

use std::{sync::Arc, time::Duration};

use metrics::{Counter, Gauge};
use millrace_time::SharedRandom;
use millrace_wire::{
    FetchAnswer,
    error_code::{ErrorCode, NONE},
    messages::FetchRequest,
    service::Peer,
};
use parking_lot::Mutex;

use self::{
    left_out::LeftOut,
    partitions::Partitions,
    slots::{Size, Slots},
};
use crate::topics::FIRST_WITH_TOPIC_IDS;

/// What all sessions may take in memory, bytes.
pub const FETCH_SESSIONS_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// What one session may take, bytes: more than 30,000 partitions. Beyond, clients send whole requests.
const SESSION_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The id of no session.
const NO_ID: i32 = 0;
/// The epoch of a whole request that starts a session.
const FIRST_EPOCH: i32 = 0;
/// The epoch of a whole request that starts none.
const FINAL_EPOCH: i32 = -1;
/// The first version with sessions.
const FIRST_VERSION: i16 = 7;

/// The sessions of this broker.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    slots: Mutex<Slots<Arc<Mutex<Session>>>>,
    random: SharedRandom,
    sessions: Gauge,
    partitions: Gauge,
    evictions: Counter,
}

/// A session between two requests.
#[derive(Debug)]
struct Session {
    /// That of the next request.
    epoch: i32,
    /// Whether its requests name topics by id.
    by_id: bool,
    /// Who it belongs to.
    principal: Option<Box<str>>,
    partitions: Partitions,
    left_out: LeftOut,
}

/// What a request is to its session.
#[derive(Debug)]
pub(crate) enum InSession {
    /// It has none.
    None,
    /// It starts one, if there is room.
    Starting(NewSession),
    /// It goes on with one.
    Continuing(ContinuedSession),
}

/// The session that an answer starts.
#[derive(Debug)]
pub(crate) struct NewSession {
    by_id: bool,
    principal: Option<Box<str>>,
    partitions: Partitions,
}

/// The session that an answer goes on with.
#[derive(Debug)]
pub(crate) struct ContinuedSession {
    id: i32,
    /// The session's, unless another request came before this one was answered.
    epoch: i32,
    session: Arc<Mutex<Session>>,
}

impl FetchSessions {
    pub(crate) fn new(random: SharedRandom) -> Self {
        Self {
            slots: Mutex::new(Slots::new(
                usize::try_from(FETCH_SESSIONS_BYTES_MAX).unwrap_or(usize::MAX),
            )),
            random,
            sessions: metrics::gauge!("millrace_fetch_sessions"),
            partitions: metrics::gauge!("millrace_fetch_session_partitions"),
            evictions: metrics::counter!("millrace_fetch_session_evictions_total"),
        }
    }

    /// Finds the session of a request, and makes a whole request of one that says only what has changed.
    ///
    /// # Errors
    /// `FETCH_SESSION_ID_NOT_FOUND`, `INVALID_FETCH_SESSION_EPOCH`, `FETCH_SESSION_TOPIC_ID_ERROR`.
    pub(crate) fn enter(
        &self,
        version: i16,
        request: &mut FetchRequest,
        peer: &Peer,
        now: Duration,
    ) -> Result<InSession, ErrorCode> {
        if version < FIRST_VERSION {
            return Ok(InSession::None);
        }
        let principal = peer.identity.principal();
        let by_id = version >= FIRST_WITH_TOPIC_IDS;
        match request.session_epoch {
            FIRST_EPOCH | FINAL_EPOCH => {
                self.close(request.session_id, principal);
                if request.session_epoch == FINAL_EPOCH {
                    return Ok(InSession::None);
                }
                let partitions = Partitions::of(request);
                if partitions.bytes() > SESSION_BYTES_MAX {
                    return Ok(InSession::None);
                }
                Ok(InSession::Starting(NewSession {
                    by_id,
                    principal: principal.map(Into::into),
                    partitions,
                }))
            }
            _ => self.go_on(request, by_id, principal, now),
        }
    }

    fn go_on(
        &self,
        request: &mut FetchRequest,
        by_id: bool,
        principal: Option<&str>,
        now: Duration,
    ) -> Result<InSession, ErrorCode> {
        let id = request.session_id;
        let found = self.slots.lock().get(id).map(Arc::clone);
        let shared = found.ok_or(ErrorCode::FetchSessionIdNotFound)?;
        let mut session = shared.lock();
        if session.principal.as_deref() != principal {
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        if session.epoch != request.session_epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.by_id != by_id {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        let before = session.partitions.len();
        session.partitions.update(&request.topics);
        let with_added = session.partitions.len();
        session.partitions.forget(&request.forgotten_topics_data);
        let left_out = with_added - session.partitions.len();
        let (added, asked_ms) = (with_added - before, request.max_wait_ms);
        request.max_wait_ms = session.left_out.wait_ms(added, left_out, asked_ms);
        session.epoch = next_epoch(session.epoch);
        let (epoch, size) = (session.epoch, session.size());
        if session.partitions.is_empty() {
            drop(session);
            self.remove(id);
            return Ok(InSession::None);
        }
        request.topics = session.partitions.topics();
        drop(session);
        // The client starts again, and gets no session if that one would be too large.
        if size.bytes > SESSION_BYTES_MAX || !self.touch(id, size, now) {
            self.remove(id);
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        Ok(InSession::Continuing(ContinuedSession {
            id,
            epoch,
            session: shared,
        }))
    }

    /// Ends a session for whoever owns it.
    fn close(&self, id: i32, principal: Option<&str>) {
        let found = self.slots.lock().get(id).map(Arc::clone);
        if found.is_some_and(|session| session.lock().principal.as_deref() == principal) {
            self.remove(id);
        }
    }

    fn remove(&self, id: i32) {
        let mut slots = self.slots.lock();
        slots.remove(id);
        self.show(&slots);
    }

    /// The session was used; false where there is no room for what it has grown by.
    fn touch(&self, id: i32, size: Size, now: Duration) -> bool {
        let mut slots = self.slots.lock();
        let (has_room, evicted) = slots.touch(id, size, now);
        self.evictions.increment(evicted);
        self.show(&slots);
        has_room
    }

    /// Starts a session; gives no id where it has no room.
    fn start(&self, session: Session, now: Duration) -> i32 {
        let size = session.size();
        let mut slots = self.slots.lock();
        let (has_room, evicted) = slots.make_room(size, now);
        self.evictions.increment(evicted);
        let id = match has_room {
            true => self.unused_id(&slots),
            false => NO_ID,
        };
        if id != NO_ID {
            slots.insert(id, Arc::new(Mutex::new(session)), size, now);
        }
        self.show(&slots);
        id
    }

    /// An id that no client holds on to from before a restart, most probably.
    fn unused_id(&self, slots: &Slots<Arc<Mutex<Session>>>) -> i32 {
        loop {
            let id = self.random.below(i32::MAX.unsigned_abs().into());
            let id = i32::try_from(id).unwrap_or(NO_ID) + 1;
            if slots.get(id).is_none() {
                return id;
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    fn show(&self, slots: &Slots<Arc<Mutex<Session>>>) {
        self.sessions.set(slots.len() as f64);
        self.partitions.set(slots.partitions() as f64);
    }
}

impl Session {
    fn size(&self) -> Size {
        Size {
            partitions: self.partitions.len(),
            bytes: self.partitions.bytes(),
        }
    }
}

impl InSession {
    /// What an answer that tells nothing has as its session.
    pub(crate) fn id(&self) -> i32 {
        match self {
            Self::None | Self::Starting(_) => NO_ID,
            Self::Continuing(session) => session.id,
        }
    }

    /// Makes the session's answer of one that tells everything.
    pub(crate) fn answer(&self, sessions: &FetchSessions, answer: &mut FetchAnswer, now: Duration) {
        debug_assert_eq!(answer.error_code, NONE, "a refused request has no session");
        match self {
            Self::None => {}
            Self::Starting(new) => {
                let mut partitions = new.partitions.clone();
                partitions.told(&answer.topics);
                let session = Session {
                    epoch: next_epoch(FIRST_EPOCH),
                    by_id: new.by_id,
                    principal: new.principal.clone(),
                    partitions,
                    left_out: LeftOut::default(),
                };
                answer.session_id = sessions.start(session, now);
            }
            Self::Continuing(continued) => continued.answer(answer),
        }
    }
}

impl ContinuedSession {
    fn answer(&self, answer: &mut FetchAnswer) {
        let mut session = self.session.lock();
        if session.epoch != self.epoch {
            *answer = FetchAnswer {
                throttle_time_ms: answer.throttle_time_ms,
                error_code: ErrorCode::InvalidFetchSessionEpoch.code(),
                ..FetchAnswer::default()
            };
            return;
        }
        session.partitions.retain_news(&mut answer.topics);
        answer.session_id = self.id;
    }
}

/// Epochs go round, without the two of whole requests.
fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(FIRST_EPOCH + 1)
}

#[cfg(test)]
mod tests;
