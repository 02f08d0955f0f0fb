//! Fetch: records in memory are returned immediately; records that do not exist yet are awaited in
//! the purgatory; records that have left memory are read from the broker's log or from objects,
//! beside the fetch ([`crate::cold_reads`]).
//!
//! A fetch that asks for hot and cold partitions is answered as soon as memory has enough, and is
//! not delayed by cold reads: their records come with one of the connection's next fetches. If
//! memory has too little, the fetch waits for both, and takes what comes first. The client bounds
//! its waits (`max_wait_ms`, `min_bytes`), its session may shorten them (`fetch_sessions::left_out`), and half a second bounds a response that would be empty
//! although there are records: clients ask again immediately.
//!
//! What is in objects can be read by every broker (KIP-392). Clients that say which zone they are in are answered for a partition
//! that another broker leads, as far as that goes, and by leaders with the broker to ask instead ([`crate::zones`]).
//!
//! A request in a session (KIP-227) is made a whole one before it is served, and its answer is reduced to
//! what the client does not know ([`crate::fetch_sessions`]).

mod answer;
mod awaited;
mod resolve;
mod route;

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use millrace_limiter::Tier;
use millrace_wire::{
    decode,
    messages::{FetchRequest, fetch_request::FetchTopic},
};
use tokio::time::{sleep, timeout};

use self::{answer::Gathered, awaited::Awaited, resolve::ResolvedFetch};
use crate::{
    call::{Answer, Call, Outcome, Reply, Taken},
    context::Context,
    quota::Payer,
};

/// How long a fetch waits at least for what has to be read, where it would be answered with nothing.
/// Kafka's `remote.fetch.max.wait.ms`.
const COLD_WAIT_MIN: Duration = Duration::from_millis(500);

/// How long a fetch that has found only some of what is being read waits for more: a client that is
/// far behind with a thousand partitions asks for all of them each time.
const GATHER_WAIT: Duration = Duration::from_millis(10);

/// How long an answer waits for its share of the network. Clients give up after 30 s; where what is
/// more urgent takes all of it indefinitely, they are answered nevertheless.
const EGRESS_WAIT_MAX: Duration = Duration::from_secs(20);

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let mut request: FetchRequest = decode(&call.request)?;
    let reply = call.reply();
    let sessions = &context.fetch_sessions;
    let session = match sessions.enter(reply.version, &mut request, &call.peer, context.now()) {
        Ok(session) => session,
        Err(code) => return Ok(Taken::Now(answer::refuse(reply, code))),
    };
    let rights = context.rights(&call);
    let payer = context.quotas.consumer(&call);
    if let Some(until) = owes(context, payer.as_ref()) {
        let answer = answer::throttled(context, reply, session.id(), until);
        return Ok(Taken::Now(answer));
    }
    let client = (&call.peer, payer, session);
    let fetch = ResolvedFetch::new((context, &rights), reply, &request, client);
    let gathered = fetch.read_at_hand(context);
    let awaited = awaited::start(context, &fetch, &gathered);
    let more = awaited
        .as_ref()
        .is_some_and(|awaited| may_find_more(&fetch, &gathered, awaited));
    let enough = gathered.suffices(&fetch) && !more;
    if enough && may_go(context, &gathered) {
        return Ok(Taken::Now(answer::write(context, reply, &fetch, gathered)));
    }
    let context = Arc::clone(context);
    Taken::later(async move {
        if enough {
            pay(&context, &fetch, &gathered).await;
            return answer::write(&context, reply, &fetch, gathered);
        }
        wait_and_answer(&context, reply, fetch, (gathered, awaited)).await
    })
}

/// Until when the client must not fetch, where it has fetched more than its quota.
fn owes(context: &Context, payer: Option<&Payer>) -> Option<Duration> {
    payer.and_then(|payer| payer.owes(context.now()))
}

/// Whether an answer that carries nothing but what was read should wait for more of that.
fn may_find_more(fetch: &ResolvedFetch, gathered: &Gathered, awaited: &Awaited) -> bool {
    let only_cold = gathered.cold_bytes() > 0 && gathered.hot_bytes() == 0;
    only_cold && !awaited.is_empty() && gathered.bytes() < fetch.bytes_max / 2
}

/// Whether the network takes the answer at once; it is paid for then.
fn may_go(context: &Context, gathered: &Gathered) -> bool {
    let bytes = u64::try_from(gathered.hot_bytes()).unwrap_or(u64::MAX);
    context.network.egress.try_acquire(Tier::TailRead, bytes)
}

/// Waits until the network takes the answer. What was read has been paid for.
async fn pay(context: &Context, fetch: &ResolvedFetch, gathered: &Gathered) {
    pay_egress(context, fetch.connection, gathered.hot_bytes()).await;
}

/// Waits until the network takes an answer with so many bytes of records.
pub(crate) async fn pay_egress(context: &Context, connection: u64, bytes: usize) {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    let egress = &context.network.egress;
    let paid = egress.acquire_for(Tier::TailRead, connection, bytes);
    if timeout(EGRESS_WAIT_MAX, paid).await.is_err() {
        egress.charge(Tier::TailRead, bytes);
    }
}

/// Waits until there is enough, in memory and elsewhere, or the time is up.
async fn wait_and_answer(
    context: &Context,
    reply: Reply,
    fetch: ResolvedFetch,
    (mut gathered, awaited): (Gathered, Option<Awaited>),
) -> Answer {
    let reads = awaited.is_some();
    let began = context.now();
    wait(context, &fetch, &mut gathered, awaited).await;
    let mut waited = context.now().saturating_sub(began);
    // Waiting for what has to be read is no wait on purpose.
    if reads {
        waited = Duration::ZERO;
    }
    // Its other connections may have used the quota up meanwhile. What has been read and taken is paid
    // for, and would have to be read again.
    let until = owes(context, fetch.payer.as_ref());
    if let Some(until) = until.filter(|_| gathered.cold_bytes() == 0) {
        let mut answer = answer::throttled(context, reply, fetch.session.id(), until);
        answer.waited = waited;
        return answer;
    }
    fetch.read_memory_again(&mut gathered);
    if !may_go(context, &gathered) {
        pay(context, &fetch, &gathered).await;
    }
    let mut answer = answer::write(context, reply, &fetch, gathered);
    answer.waited = waited;
    answer
}

/// Waits until there is enough, or the time is up.
async fn wait(
    context: &Context,
    fetch: &ResolvedFetch,
    gathered: &mut Gathered,
    awaited: Option<Awaited>,
) {
    // What is being read counts for the client's least as well.
    let elsewhere = Arc::new(AtomicUsize::new(0));
    let watched = fetch.watch(context, gathered, Arc::clone(&elsewhere));
    let Some(mut awaited) = awaited else {
        return watched.wait(context, fetch.wait).await;
    };
    let mut in_memory = pin!(watched.wait(context, fetch.wait.max(COLD_WAIT_MIN)));
    let mut pause = pin!(sleep(COLD_WAIT_MIN));
    let mut has_some = false;
    loop {
        // What is taken must be sent; where the quota forbids that, it is left to the next fetch.
        if gathered.cold_bytes() == 0 && owes(context, fetch.payer.as_ref()).is_some() {
            return;
        }
        awaited.collect(context, fetch, gathered);
        elsewhere.store(gathered.cold_bytes(), Ordering::Release);
        let enough = gathered.suffices(fetch) || (fetch.bytes_min > 1 && watched.is_enough());
        if enough && !may_find_more(fetch, gathered, &awaited) {
            return;
        }
        if enough && !has_some {
            has_some = true;
            pause.set(sleep(GATHER_WAIT));
        }
        let ends_with_pause = has_some || awaited.is_empty();
        tokio::select! {
            biased;
            () = &mut in_memory => return,
            () = awaited.changed.notified(), if !awaited.is_empty() => {}
            () = &mut pause, if ends_with_pause => return,
        }
    }
}

/// Which topic a part of the request is about, as it must be repeated in the answer.
#[derive(Debug, Clone)]
struct TopicKey {
    name: millrace_wire::StrBytes,
    id: uuid::Uuid,
}

impl From<&FetchTopic> for TopicKey {
    fn from(topic: &FetchTopic) -> Self {
        Self {
            name: topic.topic.0.clone(),
            id: topic.topic_id,
        }
    }
}
