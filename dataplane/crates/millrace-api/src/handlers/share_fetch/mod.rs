//! ShareFetch (KIP-932): a member of a share group acquires records, and says what became of those that it holds.
//!
//! The acknowledgements are taken first, in the order of the connection's requests. Then the partitions of the share session
//! are fetched: what is available is acquired for the member, and where nothing is, the request waits in the purgatory, as a
//! Fetch does. The answer comes once the acknowledgements are durable.

mod answer;
mod gather;

use std::{sync::Arc, time::Duration};

use millrace_model::TopicId;
use millrace_share::SessionKey;
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{ShareFetchRequest, share_fetch_request::FetchPartition},
};

use self::gather::{ShareFetch, Sizes};
use crate::{
    authorization::Rights,
    call::{Call, Outcome, Taken},
    context::Context,
    share_partitions::{
        Acknowledging, AskedPartition, FINAL_EPOCH, INITIAL_EPOCH, acknowledge, member, of_session,
    },
};

/// The longest that a fetch waits, whatever the client says.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A request whose session is known.
struct Entered {
    key: SessionKey,
    /// What the member fetches.
    partitions: Vec<(TopicId, i32)>,
    taken: Vec<Acknowledging>,
}

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ShareFetchRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let entered = match enter(context, &rights, (call.peer.id, &request)) {
        Ok(entered) => entered,
        Err(code) => return Ok(Taken::Now(answer::refuse(reply, code))),
    };
    let payer = context.quotas.consumer(&call);
    let sizes = Sizes::of(&request, context.config.fetch_bytes_max, payer.as_ref());
    let Entered {
        key,
        partitions,
        taken,
    } = entered;
    let fetch = ShareFetch::new((context, &rights), key, (partitions, call.peer.id), sizes);
    let is_first = request.share_session_epoch == INITIAL_EPOCH;
    let (context, peer) = (Arc::clone(context), call.peer);
    Taken::later(async move {
        let began = context.now();
        let owes_until = payer.as_ref().and_then(|payer| payer.owes(began));
        let fetching = async {
            match owes_until {
                Some(_) => Ok(fetch.nothing()),
                None => fetch.run(&context).await,
            }
        };
        let (gathered, acknowledged) = tokio::join!(fetching, Acknowledging::all(taken));
        let gathered = match gathered {
            Ok(gathered) => gathered,
            Err(code) => return answer::refuse(reply, code),
        };
        let waited = gathered.waited;
        let throttled = (payer, owes_until);
        let told = answer::Told {
            is_first,
            gathered,
            acknowledged,
        };
        let mut answer = answer::write((&context, &peer), reply, told, throttled).await;
        answer.waited = waited;
        answer
    })
}

/// Finds the session of a request, and takes its acknowledgements.
fn enter(
    context: &Context,
    rights: &Rights,
    (connection, request): (u64, &ShareFetchRequest),
) -> Result<Entered, ErrorCode> {
    let key = member(
        rights,
        request.group_id.as_ref(),
        request.member_id.as_ref(),
    )?;
    let asked = || {
        request.topics.iter().flat_map(|topic| {
            let of_topic = topic.partitions.iter();
            of_topic.map(|partition| {
                (
                    (TopicId(topic.topic_id), partition.partition_index),
                    partition,
                )
            })
        })
    };
    let acknowledges = |partition: &FetchPartition| !partition.acknowledgement_batches.is_empty();
    let epoch = request.share_session_epoch;
    if epoch == INITIAL_EPOCH && asked().any(|(_, partition)| acknowledges(partition)) {
        return Err(ErrorCode::InvalidRequest);
    }
    let added = asked().map(|(partition, _)| partition);
    let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| {
        let of_topic = topic.partitions.iter();
        of_topic.map(|partition| (TopicId(topic.topic_id), *partition))
    });
    let share = &context.share;
    let partitions = match epoch {
        INITIAL_EPOCH => share.open_session(&key, connection, added),
        FINAL_EPOCH => share.sessions(|sessions| sessions.check(&key).map(|()| Vec::new())),
        _ => share.sessions(|sessions| sessions.fetch(&key, epoch, added, forgotten)),
    };
    let mut partitions = partitions.map_err(of_session)?;
    // Each request begins with another partition, so that none of them goes short.
    if let Some(first) = usize::try_from(epoch)
        .ok()
        .and_then(|at| at.checked_rem(partitions.len()))
    {
        partitions.rotate_left(first);
    }
    let taken = asked().filter(|(_, partition)| acknowledges(partition));
    let taken = taken.map(|(partition, of)| {
        let batches = of.acknowledgement_batches.iter().map(|batch| {
            let types = batch.acknowledge_types.as_slice();
            (batch.first_offset, batch.last_offset, types)
        });
        let batches: Vec<_> = batches.collect();
        let asked = AskedPartition {
            partition,
            batches: &batches,
        };
        acknowledge((context, rights), &key, asked)
    });
    let taken = taken.collect();
    if epoch == FINAL_EPOCH {
        // What was acknowledged is not held any more.
        context.share.close_session(&key);
    }
    Ok(Entered {
        key,
        partitions,
        taken,
    })
}
