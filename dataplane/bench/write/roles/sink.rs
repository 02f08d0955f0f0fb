//! The bare sink: a loop that receives length-prefixed frames and writes them O_DIRECT|DSYNC to a
//! device, as many at once as a broker does. It looks at nothing but the lengths, so no broker can
//! do less.
//!
//! Frames are gathered into a block while more are there and fit; a larger frame is a block of its
//! own. A frame is answered with its number, 8 bytes, once its block is durable, in order. One
//! thread receives and starts writes, another waits for them and answers; what a block holds is
//! read from the socket into the buffer that goes to the device.

use std::{
    error::Error,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use millrace_bench::usage;
use millrace_time::SystemClock;
use millrace_wal::{AlignedBuf, BLOCK_BYTES, BufferPool, device::DeviceFuture};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::{MIB, flags::Flags, volume::Volume};

/// What is sent for each frame: its number in its connection, from 0 on.
pub(super) const ANSWER_BYTES: usize = 8;
const LENGTH_BYTES: usize = 4;
/// Nobody sends a longer frame.
const FRAME_BYTES_MAX: usize = 128 << 20;
/// Answers that leave together.
const ANSWERS_AT_ONCE: usize = 4_096;

/// Serves connections one after another: `--connections` of them, or until it is killed.
pub(super) fn run(flags: &mut Flags) -> Result<Value, Box<dyn Error>> {
    let port: u16 = flags.optional("port")?.unwrap_or(0);
    let block_bytes = flags.count("block", 1 << 20)?;
    let connections: Option<u64> = flags.optional("connections")?;
    let file_bytes = flags.required("bytes")?;
    let volume = Volume::of(flags, file_bytes)?;
    flags.finish()?;
    let mut sink = Sink::new(volume, block_bytes);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let mut out = io::stdout().lock();
    writeln!(out, "ready {}", listener.local_addr()?.port())?;
    out.flush()?;

    let clock = SystemClock::shared();
    let (cpu, mut busy) = (usage::cpu_time(), Duration::ZERO);
    let mut served = 0;
    while connections.is_none_or(|connections| served < connections) {
        let (stream, _) = listener.accept()?;
        let began = clock.now();
        sink.serve(&stream)?;
        busy += clock.now().saturating_sub(began);
        served += 1;
    }
    let cpu = usage::cpu_time().saturating_sub(cpu);
    Ok(json!({
        "mb_per_s": sink.bytes as f64 / MIB / busy.as_secs_f64().max(1e-9),
        "bytes": sink.bytes,
        "frames": sink.frames,
        "writes": sink.writes,
        "seconds": busy.as_secs_f64(),
        "cpu_seconds": cpu.as_secs_f64(),
    }))
}

/// The sink, between connections.
struct Sink {
    volume: Volume,
    block_bytes: usize,
    pool: BufferPool,
    bytes: u64,
    frames: u64,
    writes: u64,
}

/// A block while it is being filled.
struct Block {
    buffer: AlignedBuf,
    filled: usize,
    frames: usize,
}

/// A write under way, and how many frames are answered once it is durable.
struct Started {
    write: DeviceFuture<()>,
    frames: usize,
}

impl Sink {
    fn new(volume: Volume, block_bytes: usize) -> Self {
        // Those under way, one that is filled, and one that is waited for.
        let blocks = volume.depth() + 2;
        // The pool's sizes are powers of two.
        let size = block_bytes.next_power_of_two() + BLOCK_BYTES as usize;
        Self {
            volume,
            block_bytes,
            pool: BufferPool::new(blocks * size),
            bytes: 0,
            frames: 0,
            writes: 0,
        }
    }

    /// Receives until the other side closes and everything is durable and answered.
    fn serve(&mut self, stream: &TcpStream) -> Result<(), Box<dyn Error>> {
        stream.set_nodelay(true)?;
        // Besides those in the channel one is waited for, and one waits to be put there.
        let (started, writes) = sync_channel(self.volume.depth().saturating_sub(2));
        thread::scope(|scope| {
            let answering = scope.spawn(|| answer(stream, writes));
            let received = self.receive(stream, &started);
            drop(started);
            let answered = answering
                .join()
                .map_err(|_| "the answering thread panicked")?;
            // Where answering has failed, receiving fails for that reason.
            answered.and(received).map_err(Into::into)
        })
    }

    fn receive(&mut self, mut stream: &TcpStream, started: &SyncSender<Started>) -> io::Result<()> {
        let mut block: Option<Block> = None;
        loop {
            if let Some(full) = block.take_if(|_| !is_readable(stream)) {
                self.start(full, started)?;
            }
            let Some(length) = read_length(stream)? else {
                break;
            };
            let frame_bytes = LENGTH_BYTES + length;
            let fits = |block: &Block| block.filled + frame_bytes <= block.buffer.len();
            if let Some(full) = block.take_if(|block| !fits(block)) {
                self.start(full, started)?;
            }
            let filling = block.get_or_insert_with(|| {
                let bytes = frame_bytes.max(self.block_bytes);
                Block {
                    buffer: self.pool.take(bytes.next_multiple_of(BLOCK_BYTES as usize)),
                    filled: 0,
                    frames: 0,
                }
            });
            let (head, body) =
                filling.buffer[filling.filled..][..frame_bytes].split_at_mut(LENGTH_BYTES);
            head.copy_from_slice(&(length as u32).to_be_bytes());
            stream.read_exact(body)?;
            filling.filled += frame_bytes;
            filling.frames += 1;
            self.bytes += frame_bytes as u64;
            self.frames += 1;
        }
        block.map_or(Ok(()), |last| self.start(last, started))
    }

    /// Starts to write a block; waits where as many writes as may be are under way.
    fn start(&mut self, block: Block, started: &SyncSender<Started>) -> io::Result<()> {
        let Block {
            mut buffer,
            filled,
            frames,
        } = block;
        let whole_blocks = filled.next_multiple_of(BLOCK_BYTES as usize);
        // What an earlier block left in the buffer.
        buffer[filled..whole_blocks].fill(0);
        buffer.truncate(whole_blocks);
        let place = self.volume.place(whole_blocks)?;
        let write = self.volume.device().write(place, buffer);
        self.writes += 1;
        let gone = |_| io::Error::other("nobody answers any more");
        started.send(Started { write, frames }).map_err(gone)
    }
}

/// Waits for the writes in order and answers their frames.
fn answer(mut stream: &TcpStream, writes: Receiver<Started>) -> io::Result<()> {
    // The volume's own runtime collects what has completed; this only waits.
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut next_frame = 0_u64;
    let mut answers = Vec::with_capacity(ANSWERS_AT_ONCE * ANSWER_BYTES);
    for Started { write, frames } in writes {
        runtime.block_on(write)?;
        for _ in 0..frames {
            answers.extend_from_slice(&next_frame.to_be_bytes());
            next_frame += 1;
        }
        stream.write_all(&answers)?;
        answers.clear();
    }
    Ok(())
}

/// The length of the next frame; nothing where the other side has closed.
fn read_length(mut stream: &TcpStream) -> io::Result<Option<usize>> {
    let mut length = [0; LENGTH_BYTES];
    let first = loop {
        match stream.read(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut length[first..])?;
    match u32::from_be_bytes(length) as usize {
        length if length <= FRAME_BYTES_MAX => Ok(Some(length)),
        length => Err(io::Error::other(format!("a frame of {length} bytes"))),
    }
}

/// Whether a read would not block, be it for the other side's closing.
fn is_readable(stream: &TcpStream) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::IN)];
    // A failed look is no reason to hold a block back.
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
