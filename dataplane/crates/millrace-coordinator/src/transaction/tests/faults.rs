//! Transactions among zombies, lost answers, timeouts, moves of the coordinator and failing writes: each ends once,
//! everywhere in the way that was decided durably, and nothing stays open.

use std::{collections::HashMap, pin::Pin};

use proptest::{prelude::*, test_runner::TestCaseError};

use super::*;

const TOPICS: [&str; 3] = ["t", "u", "v"];
const CLIENTS: usize = 3;

/// What happens next. Calls are those of one of [`CLIENTS`], all of which use one transactional id.
#[derive(Debug, Clone)]
enum Event {
    /// With the producer's own id and epoch, where it knows them (KIP-360).
    Init(usize, bool),
    Add(usize, usize),
    Write(usize, usize),
    End(usize, bool),
    /// The client does not hear the answers that it waits for.
    AnswersLost,
    Pass(u64),
    Faults(Vec<Fault>),
    DataDown(bool),
    /// Writes to the log take longer, until they do not.
    Held(bool),
    Broken(bool),
    /// To this broker, which may be the one that has just lost it.
    Move(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let (client, topic) = (0..CLIENTS, 0..TOPICS.len());
    let fault = prop_oneof![
        Just(Fault::Refused),
        Just(Fault::AnswerLost),
        (1_u64..5_000).prop_map(|ms| Fault::Slow(Duration::from_millis(ms))),
        (1_u64..60_000).prop_map(|ms| Fault::SlowAnswer(Duration::from_millis(ms))),
    ];
    prop_oneof![
        4 => (client.clone(), any::<bool>()).prop_map(|(c, knows)| Event::Init(c, knows)),
        6 => (client.clone(), topic.clone()).prop_map(|(c, t)| Event::Add(c, t)),
        6 => (client.clone(), topic).prop_map(|(c, t)| Event::Write(c, t)),
        6 => (client, any::<bool>()).prop_map(|(c, committed)| Event::End(c, committed)),
        1 => Just(Event::AnswersLost),
        3 => (1_u64..70).prop_map(Event::Pass),
        2 => prop::collection::vec(fault, 1..6).prop_map(Event::Faults),
        1 => any::<bool>().prop_map(Event::DataDown),
        2 => any::<bool>().prop_map(Event::Held),
        1 => any::<bool>().prop_map(Event::Broken),
        3 => (0_usize..2).prop_map(Event::Move),
    ]
}

/// A client waits for it.
enum Call {
    Init(usize),
    Add,
    /// Of the last transaction that had begun, if it is one that was open or is committed.
    End(usize, Option<(usize, bool)>),
}

type Waiting = Pin<Box<dyn Future<Output = (Call, Answer)>>>;

struct Run {
    /// Two brokers, one of which leads the log.
    worlds: [Arc<World>; 2],
    leader: usize,
    /// The version of the transaction protocol that all clients speak.
    protocol: i16,
    producers: [Option<ProducerEpoch>; CLIENTS],
    waiting: Vec<Waiting>,
    /// The last producer that a client was told by an InitProducerId.
    newest: Option<ProducerEpoch>,
    /// What clients were told of how their transactions ended.
    told: Vec<(usize, bool)>,
    /// Where the log ends that survives, while it is held up.
    held: Option<u64>,
}

impl Run {
    /// Transactions that have begun, by what the log says.
    fn begun(&self) -> usize {
        let history = self.world().history("id");
        let mut is_open = false;
        let begins = history.iter().flatten().filter(|stored| {
            let was_open =
                std::mem::replace(&mut is_open, stored.state == TransactionState::Ongoing);
            is_open && !was_open
        });
        begins.count()
    }

    fn is_zombie(&self, producer: ProducerEpoch) -> bool {
        // Ids grow.
        self.newest.is_some_and(|newest| producer < newest)
    }

    fn world(&self) -> &Arc<World> {
        &self.worlds[self.leader]
    }

    async fn settle(&self) {
        for world in &self.worlds {
            world.settle().await;
        }
    }

    /// What was not durable is lost, and `leader` leads from now on.
    async fn move_to(&mut self, leader: usize) {
        let world = self.world().clone();
        if let Some(held) = self.held {
            world.log().truncate(held);
        }
        world.topic.lose(0);
        self.settle().await;
        self.release();
        self.leader = leader;
        self.world().topic.gain(0);
        self.settle().await;
    }

    async fn step(&mut self, event: Event) -> Result<(), TestCaseError> {
        let world = self.world().clone();
        match event {
            Event::Init(client, knows) => {
                let expected = self.producers[client].filter(|_| knows);
                let init = async move { (Call::Init(client), world.init(expected).await) };
                self.waiting.push(Box::pin(init));
            }
            Event::Add(client, topic) => {
                let Some(producer) = self.producers[client] else {
                    return Ok(());
                };
                let is_zombie = self.is_zombie(producer);
                let add = async move {
                    let added = world.add(producer, &[TOPICS[topic]]).await;
                    assert!(!is_zombie || added.is_err(), "a zombie added a partition");
                    (Call::Add, added.map(|()| producer))
                };
                self.waiting.push(Box::pin(add));
            }
            Event::Write(client, topic) => self.write(client, topic)?,
            Event::End(client, committed) => self.end(client, committed),
            Event::AnswersLost => self.waiting.clear(),
            Event::Pass(seconds) => {
                world.clock.advance(Duration::from_secs(seconds));
                sleep(Duration::from_secs(seconds)).await;
            }
            Event::Faults(faults) => world.data.faults.lock().extend(faults),
            Event::DataDown(is_down) => world.data.is_down.store(is_down, Ordering::SeqCst),
            Event::Held(true) => {
                self.held.get_or_insert(world.log().records());
                world.log().durable.send_replace(false);
            }
            Event::Held(false) => self.release(),
            Event::Broken(is_broken) => world.log().broken.store(is_broken, Ordering::SeqCst),
            Event::Move(leader) => self.move_to(leader).await,
        }
        // The call is made, and then has time to be answered.
        self.hear()?;
        self.settle().await;
        self.hear()
    }

    fn release(&mut self) {
        self.held = None;
        self.world().log().durable.send_replace(true);
    }

    fn write(&self, client: usize, topic: usize) -> Result<(), TestCaseError> {
        let Some(producer) = self.producers[client] else {
            return Ok(());
        };
        if self.world().verify(producer, TOPICS[topic]).is_ok() {
            prop_assert!(!self.is_zombie(producer), "a zombie writes");
            let data = Entry::Data(producer, self.begun());
            self.world().data.append(&partition(TOPICS[topic]), data);
        }
        Ok(())
    }

    fn end(&mut self, client: usize, committed: bool) {
        let Some(producer) = self.producers[client] else {
            return;
        };
        let (world, protocol) = (self.world().clone(), self.protocol);
        let described = world.coordinator.describe("id");
        let is_open = described.is_ok_and(|described| described.state == TransactionState::Ongoing);
        // Without an open one, an abort ends nothing, or repeats what ended the last one.
        let outcome = (is_open || committed).then(|| (self.begun(), committed));
        let end = async move {
            let ended = world.end(producer, committed, protocol).await;
            (Call::End(client, outcome), ended)
        };
        self.waiting.push(Box::pin(end));
    }

    /// Clients hear the answers that have come.
    fn hear(&mut self) -> Result<(), TestCaseError> {
        let waiting = std::mem::take(&mut self.waiting);
        for mut call in waiting {
            let Some((call, answer)) = futures_util::FutureExt::now_or_never(call.as_mut()) else {
                self.waiting.push(call);
                continue;
            };
            let Ok(producer) = answer else { continue };
            match call {
                Call::Init(client) => {
                    // A repeated request may be answered with what is not the newest any more.
                    self.newest = self.newest.max(Some(producer));
                    self.producers[client] = Some(producer);
                }
                Call::Add => {}
                Call::End(client, outcome) => {
                    if self.protocol >= 2 {
                        self.producers[client] = Some(producer);
                    }
                    self.told.extend(outcome);
                }
            }
        }
        Ok(())
    }

    /// Everything works again, and time passes.
    async fn heal(&mut self) -> Result<(), TestCaseError> {
        self.world().data.faults.lock().clear();
        self.world().data.is_down.store(false, Ordering::SeqCst);
        self.world().log().broken.store(false, Ordering::SeqCst);
        self.release();
        for _ in 0..10 {
            sleep(Duration::from_secs(10)).await;
            self.world().clock.advance(TIMEOUT);
            self.settle().await;
        }
        self.hear()?;
        prop_assert!(self.waiting.is_empty(), "somebody waits for ever");
        Ok(())
    }

    /// How each transaction ended, by what the log says.
    fn outcomes(&self) -> HashMap<usize, bool> {
        let mut outcomes = HashMap::new();
        let mut begun = 0;
        let mut before = TransactionState::Empty;
        for stored in self.world().history("id").into_iter().flatten() {
            if stored.state == TransactionState::Ongoing && before != TransactionState::Ongoing {
                begun += 1;
            }
            if stored.state.is_ending() && before == TransactionState::Ongoing {
                outcomes.insert(begun, stored.state == TransactionState::PrepareCommit);
            }
            before = stored.state;
        }
        outcomes
    }

    fn check(&self) -> Result<(), TestCaseError> {
        if let Ok(described) = self.world().coordinator.describe("id") {
            let state = described.state;
            prop_assert!(
                !state.is_ending() && state != TransactionState::Ongoing,
                "{state:?}"
            );
        }
        let outcomes = self.outcomes();
        for (transaction, committed) in &self.told {
            prop_assert_eq!(outcomes.get(transaction), Some(committed), "told otherwise");
        }
        for topic in TOPICS {
            let mut open: HashMap<i64, Vec<usize>> = HashMap::new();
            for entry in self.world().data.log(&partition(topic)) {
                match entry {
                    Entry::Data((id, _), transaction) => {
                        open.entry(id).or_default().push(transaction);
                    }
                    Entry::Marker(marker) => {
                        for transaction in open.remove(&marker.producer_id).unwrap_or_default() {
                            let decided = outcomes.get(&transaction);
                            prop_assert_eq!(decided, Some(&marker.committed), "{:?}", marker);
                        }
                    }
                }
            }
            prop_assert!(open.is_empty(), "{topic} waits for the end of {open:?}");
        }
        Ok(())
    }
}

async fn run(protocol: i16, events: Vec<Event>) -> Result<(), TestCaseError> {
    let first = Arc::new(World::new().await);
    let logs = first.topic.logs.clone();
    let topic = MemoryTopic::of(logs);
    topic.create_elsewhere();
    let (data, clock, ids) = (first.data.clone(), first.clock.clone(), first.ids.clone());
    let second = Arc::new(World::with(topic, data, clock, ids).await);
    let mut run = Run {
        worlds: [first, second],
        leader: 0,
        protocol,
        producers: [None; CLIENTS],
        waiting: Vec::new(),
        newest: None,
        told: Vec::new(),
        held: None,
    };
    for event in events {
        run.step(event).await?;
    }
    run.heal().await?;
    run.check()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_transaction_ends_once_as_it_was_decided(
        protocol in 1_i16..=2,
        events in prop::collection::vec(event(), 1..70),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.expect("a runtime").block_on(run(protocol, events))?;
    }
}
