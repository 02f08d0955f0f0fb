//! The light load generator: one connection, one thread, a fixed number of requests in flight,
//! records that were encoded once.
//!
//! It drives a broker with Produce requests, or the bare sink with the same bytes, and checks
//! every answer: error code, order, and that each batch got the offset after the one before.

mod answers;

use std::{
    collections::VecDeque,
    error::Error,
    io::{self, IoSlice, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use millrace_bench::{
    latencies::{self, Latencies},
    producer::{BatchTemplate, ClientError, Connection, ProduceFrame, ProducerIdentity, Stamp},
    usage,
};
use millrace_time::{SharedClock, SystemClock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Map, Value};

use self::answers::{AnswerState, Answers};
use super::{
    MIB,
    flags::Flags,
    schedule::{Batches, Pace, Schedule, Turn},
};

const CLIENT_ID: &str = "bench-write";
/// Whoever does not answer for so long does not take part.
const PATIENCE: Duration = Duration::from_secs(60);
/// As Kafka's client has by default.
const IN_FLIGHT: usize = 5;
/// As the benchmark starts Kafka's client.
const LINGER_MS: f64 = 1.0;
/// One system call takes 1,024 slices, a batch is two.
const PARTITIONS_MAX: usize = 512;
/// The same bytes in all runs.
const SEED: u64 = 1;

/// What to send.
#[derive(Debug)]
struct Plan {
    bootstrap: SocketAddr,
    topic: String,
    partitions: usize,
    record_bytes: usize,
    batch_bytes: usize,
    records: u64,
    pace: Pace,
    linger: Duration,
    in_flight: usize,
    idempotent: bool,
    sink: bool,
    seconds_max: Option<f64>,
}

impl Plan {
    fn of(flags: &mut Flags) -> Result<Self, String> {
        let sink = flags.switch("sink")?;
        let record_bytes = flags.count("record-bytes", 64 << 10)?;
        let throughput: Option<String> = flags.optional("throughput-mb")?;
        let linger_ms = flags.optional("linger-ms")?.unwrap_or(LINGER_MS);
        let plan = Self {
            bootstrap: flags.required("bootstrap")?,
            topic: flags.optional("topic")?.unwrap_or_else(|| "bench".into()),
            partitions: flags.count("partitions", 1)?,
            record_bytes,
            batch_bytes: flags.count("batch-bytes", 1 << 20)?,
            records: flags.required("records")?,
            pace: pace(throughput.as_deref(), record_bytes)?,
            linger: Duration::try_from_secs_f64(linger_ms / 1e3).map_err(|e| e.to_string())?,
            in_flight: flags.count("in-flight", IN_FLIGHT)?,
            idempotent: flags.switch("idempotent")?,
            sink,
            seconds_max: flags.optional("seconds-max")?,
        };
        flags.finish()?;
        if plan.partitions > PARTITIONS_MAX {
            return Err(format!("--partitions can be {PARTITIONS_MAX} at most"));
        }
        if plan.sink && plan.idempotent {
            return Err("a sink knows no idempotent producers".into());
        }
        Ok(plan)
    }
}

fn pace(throughput: Option<&str>, record_bytes: usize) -> Result<Pace, String> {
    match throughput {
        None | Some("unlimited") => Ok(Pace::Unlimited),
        Some(number) => match number.parse::<f64>() {
            Ok(mib) if mib > 0.0 && mib.is_finite() => {
                Ok(Pace::Rate(mib * MIB / record_bytes as f64))
            }
            _ => Err(format!("--throughput-mb cannot be {number:?}")),
        },
    }
}

/// Runs a load; what it showed.
pub(super) fn run(flags: &mut Flags) -> Result<Value, Box<dyn Error>> {
    let plan = Plan::of(flags)?;
    let load = Load::connect(&plan)?;
    let (shown, failure) = load.run(plan.seconds_max)?;
    match failure {
        None => Ok(shown),
        Some(failure) => {
            // The figures of a run that lost something are still of interest.
            println!("{shown}");
            Err(failure.into())
        }
    }
}

/// A run under way.
struct Load {
    stream: TcpStream,
    clock: SharedClock,
    started: Duration,
    schedule: Schedule,
    template: BatchTemplate,
    record_bytes: usize,
    producer: Option<ProducerIdentity>,
    /// By partition: the sequence of its next batch.
    sequences: Vec<i32>,
    /// The request that is being written, and how much of it has been.
    frame: ProduceFrame,
    frame_counts: Vec<usize>,
    written: usize,
    in_flight: VecDeque<InFlight>,
    in_flight_max: usize,
    answers: Answers,
    measured: Measured,
}

struct InFlight {
    correlation_id: i32,
    batches: Batches,
    begun: Duration,
}

#[derive(Debug, Default)]
struct Measured {
    requests: i32,
    records: u64,
    errors: u64,
    failure: Option<String>,
    latencies: Latencies,
    ended: Duration,
}

impl Load {
    fn connect(plan: &Plan) -> Result<Self, ClientError> {
        let template = BatchTemplate::random(plan.record_bytes, plan.batch_bytes, SEED);
        let mut producer = None;
        let (stream, answers) = if plan.sink {
            let stream = TcpStream::connect_timeout(&plan.bootstrap, PATIENCE)?;
            stream.set_nodelay(true)?;
            (stream, Answers::sink())
        } else {
            let mut broker = Connection::connect(plan.bootstrap, CLIENT_ID, PATIENCE)?;
            let partitions = plan.partitions as i32;
            broker.create_topic(&plan.topic, partitions, PATIENCE)?;
            let ends = (0..partitions).map(|partition| broker.end_offset(&plan.topic, partition));
            let ends = ends.collect::<Result<_, _>>()?;
            if plan.idempotent {
                producer = Some(broker.init_producer_id()?);
            }
            (broker.into_stream(), Answers::kafka(ends))
        };
        stream.set_nonblocking(true)?;
        let (linger, batch_records) = (plan.linger, template.records_max());
        Ok(Self {
            stream,
            clock: SystemClock::shared(),
            started: Duration::ZERO,
            schedule: Schedule::new(
                plan.pace,
                linger,
                plan.records,
                batch_records,
                plan.partitions,
            ),
            template,
            record_bytes: plan.record_bytes,
            producer,
            sequences: vec![0; plan.partitions],
            frame: ProduceFrame::new(CLIENT_ID, &plan.topic),
            frame_counts: Vec::new(),
            written: 0,
            in_flight: VecDeque::new(),
            in_flight_max: plan.in_flight,
            answers,
            measured: Measured::default(),
        })
    }

    /// Sends everything and takes every answer; what that showed, and what went wrong.
    fn run(mut self, seconds_max: Option<f64>) -> Result<(Value, Option<String>), Box<dyn Error>> {
        let stop_at = seconds_max.map_or(Duration::MAX, Duration::from_secs_f64);
        let cpu = usage::cpu_time();
        self.started = self.clock.now();
        loop {
            let now = self.now();
            if now >= stop_at {
                self.schedule.stop();
            }
            let wake = self.send().map_err(ClientError::Io)?;
            if self.in_flight.is_empty() && wake.is_none() {
                break;
            }
            self.wait(wake)?;
        }
        let cpu = usage::cpu_time().saturating_sub(cpu);
        let failure = self.measured.failure.take();
        Ok((self.measured.describe(cpu, self.record_bytes), failure))
    }

    /// Since the run began.
    fn now(&self) -> Duration {
        self.clock.now().saturating_sub(self.started)
    }

    /// Sends until nothing is due, too much is in flight, or the socket is full. Says when the
    /// next request is due, or nothing where that does not depend on time.
    fn send(&mut self) -> io::Result<Option<Duration>> {
        loop {
            if !self.write_frame()? || self.in_flight.len() >= self.in_flight_max {
                return Ok(None);
            }
            let now = self.now();
            match self.schedule.turn(now) {
                Turn::Send(batches) => self.begin_frame(batches, now),
                Turn::Wait(until) => return Ok(Some(until)),
                Turn::Done => return Ok(None),
            }
        }
    }

    fn begin_frame(&mut self, batches: Batches, now: Duration) {
        let correlation_id = self.measured.requests;
        self.measured.requests = correlation_id.wrapping_add(1);
        self.frame.begin(correlation_id);
        let timestamp_ms = self.clock.wall_ms();
        for (n, &count) in batches.counts.iter().enumerate() {
            let partition = (batches.first_partition + n) % self.sequences.len();
            let sequence = &mut self.sequences[partition];
            let stamp = Stamp {
                timestamp_ms,
                producer: self.producer,
                base_sequence: *sequence,
            };
            let header = self.template.header(count, &stamp);
            let records = self.template.records(count);
            self.frame.push(partition as i32, &header, records.len());
            // Sequences go on at 0 after 2^31 - 1.
            *sequence = sequence.wrapping_add(count as i32) & i32::MAX;
        }
        self.frame_counts.clone_from(&batches.counts);
        self.written = 0;
        self.in_flight.push_back(InFlight {
            correlation_id,
            batches,
            begun: now,
        });
    }

    /// Writes what is left of the current request; false where the socket is full.
    fn write_frame(&mut self) -> io::Result<bool> {
        let length = if self.frame_counts.is_empty() {
            0
        } else {
            self.frame.len()
        };
        while self.written < length {
            let template = &self.template;
            let records = self.frame_counts.iter().map(|&n| template.records(n));
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(2 * self.frame_counts.len());
            self.frame.slices(records, self.written, &mut slices);
            match (&self.stream).write_vectored(&slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Waits until there are answers, the socket takes more, or `wake` has come, and takes the
    /// answers.
    fn wait(&mut self, wake: Option<Duration>) -> Result<(), Box<dyn Error>> {
        let unwritten = !self.frame_counts.is_empty() && self.written < self.frame.len();
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, unwritten);
        let patience = wake.map_or(PATIENCE, |wake| wake.saturating_sub(self.now()));
        let timeout = Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: i64::from(patience.subsec_nanos()),
        };
        let mut polled = [PollFd::new(&self.stream, flags)];
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) if wake.is_none() => {
                return Err(format!("no answer for {} s", PATIENCE.as_secs()).into());
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [polled] = polled;
        if polled.revents().difference(PollFlags::OUT).is_empty() {
            return Ok(());
        }
        self.answers.read(&self.stream).map_err(ClientError::Io)?;
        self.take_answers()
    }

    fn take_answers(&mut self) -> Result<(), Box<dyn Error>> {
        let now = self.now();
        while let Some(request) = self.in_flight.front() {
            let (id, batches) = (request.correlation_id, &request.batches);
            match self.answers.next(id, batches)? {
                AnswerState::Incomplete => break,
                AnswerState::Complete => self.measured.records += batches.records(),
                AnswerState::Wrong(records, why) => {
                    self.measured.errors += records;
                    self.measured.records += batches.records() - records;
                    self.measured.failure.get_or_insert(why);
                }
            }
            for n in 0..batches.records() {
                let Some(due) = self.schedule.due(batches.first_record + n) else {
                    let waited = now.saturating_sub(request.begun);
                    self.measured.latencies.add(waited, batches.records());
                    break;
                };
                self.measured.latencies.add(now.saturating_sub(due), 1);
            }
            self.measured.ended = now;
            self.in_flight.pop_front();
        }
        Ok(())
    }
}

impl Measured {
    fn describe(self, cpu: Duration, record_bytes: usize) -> Value {
        let seconds = self.ended.as_secs_f64().max(1e-9);
        let bytes = self.records * record_bytes as u64;
        let mut out = Map::new();
        out.insert("mb_per_s".into(), (bytes as f64 / MIB / seconds).into());
        out.insert(
            "records_per_s".into(),
            (self.records as f64 / seconds).into(),
        );
        latencies::describe(&self.latencies, &mut out);
        out.insert("cpu_seconds".into(), cpu.as_secs_f64().into());
        out.insert("seconds".into(), seconds.into());
        out.insert("requests".into(), self.requests.into());
        out.insert("records".into(), self.records.into());
        out.insert("bytes".into(), bytes.into());
        out.insert("errors".into(), self.errors.into());
        Value::Object(out)
    }
}
